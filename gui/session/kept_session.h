#pragma once
// Saves the session to disk while it changes, so that a killed window can be restored.

#include <QLockFile>
#include <QObject>
#include <QString>
#include <QTimer>
#include <memory>

#include "gui/session/session.h"

namespace zplan::gui {

/// The session's copy on disk. Each open window has a file of its own.
class KeptSession : public QObject {
  Q_OBJECT

 public:
  /// Saves to the first file in `folder` that no other window uses; creates the folder.
  KeptSession(Session& session, const QString& folder, QObject* parent = nullptr);
  /// Saves pending changes.
  ~KeptSession() override;
  KeptSession(const KeptSession&) = delete;
  KeptSession& operator=(const KeptSession&) = delete;

  /// True if a saved session exists.
  [[nodiscard]] bool has_kept() const;
  /// Loads the saved session. Throws InputError if it is unreadable, after renaming the file to "….broken".
  void restore();
  /// Stores the scenario file that the session came from, and whether it was modified since.
  void keep_document(const QString& file, bool modified) const;
  [[nodiscard]] QString document() const;
  [[nodiscard]] bool is_document_modified() const;
  /// Returns the file of the session that set_aside() kept; empty if there is none.
  [[nodiscard]] QString previous() const;
  /// Moves the saved session to previous().
  void set_aside();

  [[nodiscard]] const QString& file() const { return file_; }
  /// Saves at once; returns false on failure.
  bool keep_now();

 Q_SIGNALS:
  void failed(const QString& problem);

 private:
  void later();
  [[nodiscard]] QString key(const char* name) const;

  Session& session_;
  QString file_;  ///< empty: saving is not possible
  std::unique_ptr<QLockFile> lock_;
  QTimer pause_;
  bool has_failed_{};
};

}  // namespace zplan::gui
