/* The ways in which a program of Windows ends. Each of them leaves another code, so that none is taken for another. */
#ifndef ENDS_H
#define ENDS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

enum { RETURNED = 3, EXITED = 4, TERMINATED = 5, FAILED = 99 };

static inline void give_up(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    fflush(stderr);
    TerminateProcess(GetCurrentProcess(), FAILED);
}

/*
 * Says where the program is, and goes on when a line comes, or the end of the standard input: who runs it decides how
 * long workers of the layer have, and no time decides.
 */
static inline void wait_for_word(const char *where)
{
    char word[16];
    printf("%s\n", where);
    fflush(stdout);
    if (!fgets(word, sizeof word, stdin))
        return;
}

/* Ends the program as `way` says; returns only for "return", with what main is to return. */
static inline int end_by(const char *way)
{
    printf("done\n");
    fflush(stdout);
    /* Neither a dialogue nor a debugger: nobody is there to close it. */
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
    if (strcmp(way, "exit") == 0)
        exit(EXITED);
    if (strcmp(way, "terminate") == 0)
        TerminateProcess(GetCurrentProcess(), TERMINATED);
    if (strcmp(way, "abort") == 0)
        abort();
    if (strcmp(way, "crash") == 0)
        *(volatile int *)NULL = 0;
    if (strcmp(way, "killed") == 0)
        Sleep(INFINITE);
    if (strcmp(way, "return") != 0)
        give_up("no such end", way);
    return RETURNED;
}

/* FNV-1a. */
static inline unsigned long long hash_of(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    unsigned long long hash = 0xcbf29ce484222325ull;
    while (bytes--)
        hash = (hash ^ *at++) * 0x100000001b3ull;
    return hash;
}

#endif
