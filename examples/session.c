/* A translator that keeps its translations in a session of vkstash, and works without vkstash:
 *
 *     cc -std=c11 -Wall -Wextra -Werror -Iinclude examples/session.c -ldl
 *
 * In a real translator open_stash is called after vkCreateInstance, because the Vulkan loader loads the layer there.
 * The argument, a path of the library, takes the loader's place, so that the example runs without Vulkan.
 *
 * A program that links the library names a function of it: else the linker drops the library with -Wl,--as-needed,
 * which is the default of some distributions. With -DLINKED the example does that:
 *
 *     cc -std=c11 -DLINKED examples/session.c $(pkg-config --cflags --libs vkstash) -ldl */
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vkstash.h"

/* Raise it when the same source is translated to something else: the old entries are then deleted. */
#define TRANSLATOR_VERSION 1

typedef struct Stash {
    VkstashResult (*create)(const VkstashSessionDesc *, const VkstashAdapter *, const char *, VkstashSession *);
    VkstashResult (*find)(VkstashSession, const void *, size_t, void *, size_t *);
    VkstashResult (*store)(VkstashSession, const void *, size_t, const void *, size_t);
    VkstashResult (*destroy)(VkstashSession);
    VkstashSession session; /* 0: there is none, and everything is translated */
    const char *why;        /* there is none */
} Stash;

/* Copies a pointer to a function, which ISO C does not convert. Returns whether there is one. */
static int look_up(VkstashFunction (*get)(const char *), const char *name, void *to) {
    VkstashFunction function = get(name);
    memcpy(to, &function, sizeof function);
    return function != NULL;
}

/* The function that has all others. NULL: the library is not loaded. */
static VkstashFunction (*find_library(void))(const char *) {
#ifdef LINKED
    return vkstash_get_proc_addr;
#else
    VkstashFunction (*get)(const char *) = NULL;
    /* By its SONAME, whatever its path, if it is loaded. It is never unloaded. */
    void *library = dlopen("libVkLayer_vkstash.so", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = library != NULL ? dlsym(library, "vkstash_get_proc_addr") : NULL;
    memcpy(&get, &symbol, sizeof get);
    return get;
#endif
}

/* Why vkstash_create_session has failed. */
static const char *in_words(VkstashResult result) {
    switch (result) {
    case VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE:
        return "disabled (VKSTASH_DISABLE, or 'vkstash cache disable sessions'), busy, or without a folder";
    case VKSTASH_ERROR_ALREADY_EXISTS: return "open already, with another mode, other flags or another version";
    case VKSTASH_ERROR_REFUSED: return "a file or folder is not the cache's, or others may write to it";
    case VKSTASH_ERROR_READ_ONLY: return "the folder can only be read";
    case VKSTASH_ERROR_DISK_FULL: return "the disk is full";
    case VKSTASH_ERROR_OUT_OF_MEMORY: return "there is not enough memory";
    case VKSTASH_ERROR_INVALID_ARGUMENT: return "a fault of this program: an invalid argument";
    default: return "an error of the system or of the library";
    }
}

static Stash open_stash(void) {
    /* Choose a GUID of your own. The default of 1 KB and 128 entries in memory is small. */
    const VkstashSessionDesc desc = {
        .identifier = {0x5a1c0f3e, 0x7d42, 0x4b19, {0x9e, 0x06, 0x21, 0xd8, 0x4f, 0x73, 0xba, 0x5c}},
        .mode = VKSTASH_SESSION_MODE_DISK,
        .maximum_in_memory_cache_size_bytes = 16u << 20,
        .maximum_in_memory_cache_entries = 4096,
        .version = TRANSLATOR_VERSION,
    };
    Stash stash = {0};
    VkstashFunction (*get)(const char *) = find_library();
    stash.why = "libVkLayer_vkstash.so is not loaded: the Vulkan loader loads it where VKSTASH=1 is set";
    if (get == NULL) return stash;
    stash.why = "the library lacks a function: it is too old";
    if (look_up(get, "vkstash_create_session", &stash.create) &&
        look_up(get, "vkstash_find_value", &stash.find) &&
        look_up(get, "vkstash_store_value", &stash.store) &&
        look_up(get, "vkstash_destroy_session", &stash.destroy))
        /* session stays 0 after an error. The name is the VkApplicationInfo::pApplicationName of the program. */
        stash.why = in_words(stash.create(&desc, NULL, "example", &stash.session));
    return stash;
}

/* Stands for the real work: from the program's shader to SPIR-V. */
static char *translate(const char *source, size_t *size) {
    char *code = malloc(*size = strlen(source));
    for (size_t i = 0; code != NULL && i < *size; i++) code[i] = (char)toupper((unsigned char)source[i]);
    return code;
}

/* The stored value, or NULL: there is none, or it cannot be read now. */
static char *find(const Stash *stash, const char *source, size_t *size) {
    VkstashResult result = VKSTASH_ERROR_BUFFER_TOO_SMALL;
    *size = 4096;
    while (stash->session != 0 && result == VKSTASH_ERROR_BUFFER_TOO_SMALL) {
        char *code = malloc(*size);
        if (code == NULL) return NULL;
        result = stash->find(stash->session, source, strlen(source), code, size);
        if (result == VKSTASH_SUCCESS) return code;
        free(code);
    }
    return NULL;
}

int main(int count, char **arguments) {
    const char *source = "a shader";
    size_t size;
    if (count > 1 && dlopen(arguments[1], RTLD_NOW) == NULL) fprintf(stderr, "%s\n", dlerror());

    Stash stash = open_stash();
    if (stash.session != 0) fputs("session: open\n", stderr);
    else fprintf(stderr, "no session: %s\n", stash.why);
    char *code = find(&stash, source, &size);
    const char *origin = "from the session";
    if (code == NULL) {
        code = translate(source, &size);
        origin = "translated";
        if (code == NULL) return 1;
        /* A failure costs the next run a translation, and nothing else. */
        if (stash.session != 0) stash.store(stash.session, source, strlen(source), code, size);
    }
    printf("%s: %.*s\n", origin, (int)size, code);
    free(code);
    if (stash.session != 0) stash.destroy(stash.session);
    return 0;
}
