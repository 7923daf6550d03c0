#include "gui/session/words.h"

#include <QCoreApplication>

#include "cli/report/brief.h"
#include "models/base/format.h"

namespace zplan::gui {

namespace {

// Names from the command line's tables, listed for lupdate.
[[maybe_unused]] const char* const kNames[] = {
    QT_TRANSLATE_NOOP("line", "model"),
    QT_TRANSLATE_NOOP("line", "GPUs"),
    QT_TRANSLATE_NOOP("line", "GPU"),
    QT_TRANSLATE_NOOP("line", "memory per GPU"),
    QT_TRANSLATE_NOOP("line", "nodes"),
    QT_TRANSLATE_NOOP("line", "strategy"),
    QT_TRANSLATE_NOOP("line", "method"),
    QT_TRANSLATE_NOOP("line", "precision"),
    QT_TRANSLATE_NOOP("line", "optimizer used"),
    QT_TRANSLATE_NOOP("line", "checkpointing"),
    QT_TRANSLATE_NOOP("line", "sequence length"),
    QT_TRANSLATE_NOOP("line", "micro-batch"),
    QT_TRANSLATE_NOOP("line", "micro-batches per step"),
    QT_TRANSLATE_NOOP("line", "parameters"),
    QT_TRANSLATE_NOOP("line", "gradients"),
    QT_TRANSLATE_NOOP("line", "optimizer states"),
    QT_TRANSLATE_NOOP("line", "activations"),
    QT_TRANSLATE_NOOP("line", "loss"),
    QT_TRANSLATE_NOOP("line", "communication buffers"),
    QT_TRANSLATE_NOOP("line", "temporaries"),
    QT_TRANSLATE_NOOP("line", "framework overhead"),
    QT_TRANSLATE_NOOP("line", "allocator slack"),
    QT_TRANSLATE_NOOP("line", "needs"),
    QT_TRANSLATE_NOOP("line", "free"),
    QT_TRANSLATE_NOOP("line", "host memory per node"),
    QT_TRANSLATE_NOOP("line", "peak in"),
    QT_TRANSLATE_NOOP("line", "verdict"),
    QT_TRANSLATE_NOOP("line", "collective calls"),
    QT_TRANSLATE_NOOP("line", "sent per GPU"),
    QT_TRANSLATE_NOOP("line", "communication"),
    QT_TRANSLATE_NOOP("line", "step"),
    QT_TRANSLATE_NOOP("line", "of that compute"),
    QT_TRANSLATE_NOOP("line", "waiting for launches"),
    QT_TRANSLATE_NOOP("line", "exposed communication"),
    QT_TRANSLATE_NOOP("line", "offload"),
    QT_TRANSLATE_NOOP("line", "optimizer"),
    QT_TRANSLATE_NOOP("line", "samples per step"),
    QT_TRANSLATE_NOOP("line", "tokens per second"),
    QT_TRANSLATE_NOOP("line", "MFU"),
};

// Formats of the command line's verdict (cli/report/brief.cpp), listed for lupdate.
[[maybe_unused]] const char* const kVerdicts[] = {
    QT_TRANSLATE_NOOP("verdict", "full fine-tuning"),
    QT_TRANSLATE_NOOP("verdict", "{} by {}"),
    QT_TRANSLATE_NOOP("verdict", " of {}"),
    QT_TRANSLATE_NOOP("verdict", "one {}{}"),
    QT_TRANSLATE_NOOP("verdict", "{} x {}{}"),
    QT_TRANSLATE_NOOP("verdict", "{}, {}, on {}"),
    QT_TRANSLATE_NOOP("verdict", "fits with {}, {}"),
    QT_TRANSLATE_NOOP("verdict", "fastest with {}, {}"),
    QT_TRANSLATE_NOOP("verdict", "does not fit. The nearest, {}, {}"),
    QT_TRANSLATE_NOOP("verdict", "does not fit with {}, which {}"),
    QT_TRANSLATE_NOOP("verdict", "It fits with {} ({}): {}"),
    QT_TRANSLATE_NOOP("verdict", "{} of {} per GPU"),
    QT_TRANSLATE_NOOP("verdict", " ({} to {})"),
    QT_TRANSLATE_NOOP("verdict", ", {} of host memory per node"),
    QT_TRANSLATE_NOOP("verdict", ", {} a step"),
    QT_TRANSLATE_NOOP("verdict", ", {} tokens/s"),
    QT_TRANSLATE_NOOP("verdict", "needs {} of {} per GPU"),
    QT_TRANSLATE_NOOP("verdict", "needs {} of {} of host memory per node"),
    QT_TRANSLATE_NOOP("verdict", "does not fit"),
    QT_TRANSLATE_NOOP("verdict", "lacks memory beside the steps: {}"),
    QT_TRANSLATE_NOOP("verdict", "runs out of memory in {}"),
};

}  // namespace

QString qt(const std::string& text) { return QString::fromStdString(text); }

QString capitalised(QString text) { return text.isEmpty() ? text : text.replace(0, 1, text.at(0).toUpper()); }

QString memory_words(Bytes size, ByteUnit unit) { return qt(format_bytes(size, unit)); }

QString verdict_words(const Plan& plan) {
  if (plan.fits) return QCoreApplication::translate("zplan", "fits");
  return plan.fits_device ? QCoreApplication::translate("zplan", "short of host")
                          : QCoreApplication::translate("zplan", "does not fit");
}

Verdict verdict_of(const Planned& planned) {
  return zplan::verdict_of(planned.plan(), report_of(planned), [](const char* format) {
    return QCoreApplication::translate("verdict", format).toStdString();
  });
}

QString line_name(const QString& english) {
  // "sent per GPU, NVLink": the link keeps its name.
  const qsizetype comma = english.indexOf(QStringLiteral(", "));
  const QString stem = comma < 0 ? english : english.left(comma);
  return QCoreApplication::translate("line", stem.toUtf8().constData()) +
         (comma < 0 ? QString() : english.mid(comma));
}

}  // namespace zplan::gui
