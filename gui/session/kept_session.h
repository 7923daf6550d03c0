#pragma once
// The session on disk, kept as it changes: a window that is killed comes back with it.

#include <QLockFile>
#include <QObject>
#include <QString>
#include <QTimer>
#include <memory>

#include "gui/session/session.h"

namespace zplan::gui {

class KeptSession : public QObject {
  Q_OBJECT

 public:
  /// Each window that is open keeps a file of its own in `folder`, which is made where it is not there.
  KeptSession(Session& session, const QString& folder, QObject* parent = nullptr);
  /// Keeps what is not kept yet.
  ~KeptSession() override;
  KeptSession(const KeptSession&) = delete;
  KeptSession& operator=(const KeptSession&) = delete;

  /// Whether something was kept.
  [[nodiscard]] bool has_kept() const;
  /// Loads what was kept into the session. Throws InputError where that cannot be read; the file is then
  /// moved aside, to "….broken".
  void restore();
  /// The scenario file that the session came from, and whether it had changed since: kept beside it.
  void keep_document(const QString& file, bool modified) const;
  [[nodiscard]] QString document() const;
  [[nodiscard]] bool is_document_modified() const;
  /// The file with what was kept before this window was opened with something else; empty: none.
  [[nodiscard]] QString previous() const;
  /// Moves what was kept to previous().
  void set_aside();

  [[nodiscard]] const QString& file() const { return file_; }
  /// False where it cannot be kept.
  bool keep_now();

 Q_SIGNALS:
  void failed(const QString& problem);

 private:
  void later();
  [[nodiscard]] QString key(const char* name) const;

  Session& session_;
  QString file_;  ///< empty: nothing can be kept
  std::unique_ptr<QLockFile> lock_;
  QTimer pause_;
  bool has_failed_{};
};

}  // namespace zplan::gui
