#pragma once
// Reads files into the session and writes it to files.

#include <QObject>
#include <QStringList>

#include "gui/session/session.h"

namespace zplan::gui {

/// The session as a document: its file, whether it was modified, and the files opened before.
class Documents : public QObject {
  Q_OBJECT

 public:
  explicit Documents(Session& session, QObject* parent = nullptr);

  /// Adds the contents of the files: scenarios and saved reports as they are, a model or a ds_config as a
  /// copy of the current scenario that uses it. Unusable files change nothing and are named in one message.
  void add(const QStringList& paths);
  /// Replaces the session by a scenario file, or adds a file of another format. Returns false if it is
  /// unusable.
  bool open(const QString& path);
  bool save(const QString& path);
  /// Empties the session and forgets its file.
  void close();
  /// Sets the file of the session (empty: none) and whether the session differs from it.
  void set_file(const QString& path, bool modified);

  [[nodiscard]] const QString& file() const { return file_; }  ///< empty: none
  [[nodiscard]] bool is_modified() const;
  [[nodiscard]] QStringList recent() const;  ///< files that still exist, latest first
  void forget_recent();

 Q_SIGNALS:
  void about_to_replace();  ///< before the whole session is replaced or emptied
  void problem(const QString& message);
  void measurements(const QString& path);  ///< a file of measurements was opened
  void changed();                          ///< the file, its modification or the recent files changed

 private:
  void add_one(const QString& path);
  void add_variant(const std::string& option, const std::string& path);
  void remember(const QString& path);

  Session& session_;
  QString file_;
  bool modified_before_{};  ///< modified before the undo stack began
};

}  // namespace zplan::gui
