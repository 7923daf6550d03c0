#include "gui/session/kept_session.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QSettings>
#include <chrono>

#include "models/base/error.h"

namespace zplan::gui {

namespace {

using namespace std::chrono_literals;

/// Delay between a change and saving, so that dragging a slider does not write hundreds of files.
constexpr auto kPause = 300ms;
constexpr int kMostWindows = 32;

}  // namespace

KeptSession::KeptSession(Session& session, const QString& folder, QObject* parent)
    : QObject(parent), session_(session) {
  pause_.setSingleShot(true);
  pause_.setInterval(kPause);
  connect(&pause_, &QTimer::timeout, this, &KeptSession::keep_now);
  QDir().mkpath(folder);
  for (int n = 1; n <= kMostWindows && file_.isEmpty(); ++n) {
    const QString stem = QDir(folder).filePath(QStringLiteral("session-%1").arg(n));
    lock_ = std::make_unique<QLockFile>(stem + QStringLiteral(".lock"));
    lock_->setStaleLockTime(0);  // never stale: a window may stay open for weeks
    if (lock_->tryLock(0)) file_ = stem + QStringLiteral(".zplan");
  }
  const auto changed = [this] { later(); };
  connect(&session, &Session::inserted, this, changed);
  connect(&session, &Session::removed, this, changed);
  connect(&session, &Session::moved, this, changed);
  connect(&session, &Session::changed, this, changed);
  connect(&session, &Session::comparison_changed, this, changed);
  connect(&session, &Session::reset, this, changed);
}

KeptSession::~KeptSession() {
  if (pause_.isActive()) keep_now();
}

void KeptSession::later() {
  if (!file_.isEmpty() && !pause_.isActive()) pause_.start();
}

bool KeptSession::has_kept() const { return !file_.isEmpty() && QFileInfo::exists(file_); }

void KeptSession::restore() {
  try {
    session_.load(read_scenario_file(file_.toStdString()));
  } catch (const InputError&) {
    QFile::remove(file_ + QStringLiteral(".broken"));
    QFile::rename(file_, file_ + QStringLiteral(".broken"));
    throw;
  }
}

QString KeptSession::previous() const {
  const QString file = file_ + QStringLiteral(".previous");
  return !file_.isEmpty() && QFileInfo::exists(file) ? file : QString();
}

void KeptSession::set_aside() {
  if (!has_kept()) return;
  QFile::remove(file_ + QStringLiteral(".previous"));
  QFile::rename(file_, file_ + QStringLiteral(".previous"));
}

QString KeptSession::key(const char* name) const {
  return QStringLiteral("kept/%1/%2").arg(QFileInfo(file_).completeBaseName(), QLatin1String(name));
}

void KeptSession::keep_document(const QString& file, bool modified) const {
  if (file_.isEmpty()) return;
  QSettings settings;
  settings.setValue(key("document"), file);
  settings.setValue(key("modified"), modified);
}

QString KeptSession::document() const { return QSettings().value(key("document")).toString(); }
bool KeptSession::is_document_modified() const { return QSettings().value(key("modified")).toBool(); }

bool KeptSession::keep_now() {
  pause_.stop();
  if (file_.isEmpty()) return false;
  try {
    write_scenario_file(session_.contents(), file_.toStdString());
    has_failed_ = false;
    return true;
  } catch (const InputError& error) {
    // Reported once: the disk may stay full for a while.
    if (!std::exchange(has_failed_, true))
      Q_EMIT failed(tr("The session is not kept: %1").arg(QString::fromUtf8(error.what())));
    return false;
  }
}

}  // namespace zplan::gui
