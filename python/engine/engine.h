/* The command line as a C library: words in, JSON and messages out. What the Python package stands on; anything that can call
   C can. A question may be asked on any thread, several at once; one object is one question's at a time. */
#ifndef ZPLAN_ENGINE_H
#define ZPLAN_ENGINE_H

#include <stddef.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define ZPLAN_API __attribute__((visibility("default")))
#define ZPLAN_ENGINE_VERSION 1
#define ZPLAN_STOPPED 130
#define ZPLAN_FAILED 3

typedef struct zplan_question zplan_question;

/* A question that has not been asked; null where there is no memory. */
ZPLAN_API zplan_question* zplan_question_new(void);
ZPLAN_API void zplan_question_delete(zplan_question* question);

/* Asks what `zplan WORDS…` would, `words` being UTF-8 without the program's name, and waits for the answer. Returns the command
   line's exit status: 0 where something fits or holds, 1 where nothing does, 2 where the words are refused; ZPLAN_STOPPED where
   zplan_question_stop came first, ZPLAN_FAILED where the engine itself failed. Takes no signal and starts no program: `bench` and
   `gui` are refused. */
ZPLAN_API int zplan_question_ask(zplan_question* question, const char* const* words, size_t count);

/* From another thread: nobody waits for the answer any more. */
ZPLAN_API void zplan_question_stop(zplan_question* question);

/* What went to stdout and to stderr, or the sentence of an error without "zplan: "; valid until the question is asked again. */
ZPLAN_API const char* zplan_question_output(const zplan_question* question, size_t* length);
ZPLAN_API const char* zplan_question_messages(const zplan_question* question, size_t* length);

/* Makes the page of `--html` of a report, zplan.report/1 in UTF-8, and has it as the question's output. Returns 0, or 2 where the text is
   no report, or ZPLAN_FAILED. */
ZPLAN_API int zplan_question_page(zplan_question* question, const char* report, size_t length);

/* Writes a file as the command line writes one: whole, or the old one stays, with its permissions, and through no link out of its folder.
   Returns 0; or 2 where that is not possible, or ZPLAN_FAILED, and the question's messages say why. */
ZPLAN_API int zplan_question_write(zplan_question* question, const char* path, const char* text, size_t length);

/* The command line itself on this process's streams; returns its exit status. */
ZPLAN_API int zplan_main(const char* const* words, size_t count);

/* ZPLAN_ENGINE_VERSION of the library. */
ZPLAN_API int zplan_engine_version(void);

#if defined(__cplusplus)
}
#endif
#endif
