#pragma once
// Files that come into the session and go out of it.

#include <QObject>
#include <QStringList>

#include "gui/session/session.h"

namespace zplan::gui {

class Documents : public QObject {
  Q_OBJECT

 public:
  explicit Documents(Session& session, QObject* parent = nullptr);

  /// Adds what the files hold: scenarios, saved reports, a model or a ds_config as a scenario made of the
  /// current one. Files that cannot be used change nothing and are named in one message.
  void add(const QStringList& paths);
  /// A scenario file in place of everything; anything else is added. False where it cannot be used.
  bool open(const QString& path);
  bool save(const QString& path);
  /// An empty session without a file.
  void close();
  /// The session came from that file, or from none, and has changed since or not.
  void set_file(const QString& path, bool modified);

  [[nodiscard]] const QString& file() const { return file_; }  ///< empty: none
  [[nodiscard]] bool is_modified() const;
  [[nodiscard]] QStringList recent() const;  ///< that are still there, latest first
  void forget_recent();

 Q_SIGNALS:
  void about_to_replace();  ///< the whole session, by what a file holds or by nothing
  void problem(const QString& message);
  void measurements(const QString& path);  ///< a file that predictions are compared with
  void changed();                          ///< file, whether it is modified, or recent files

 private:
  void add_one(const QString& path);
  void add_variant(const std::string& option, const std::string& path);
  void remember(const QString& path);

  Session& session_;
  QString file_;
  bool modified_before_{};  ///< changes that the undo stack does not know
};

}  // namespace zplan::gui
