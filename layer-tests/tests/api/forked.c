/* Finds the functions in a library that is loaded at run time, as a translator does in a process with the layer, and uses a
 * session before and after a fork. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vkstash.h"

#define EXPECT(result, expected)                                                                      \
    do {                                                                                              \
        int got_ = (int)(result);                                                                     \
        if (got_ != (int)(expected)) {                                                                \
            fprintf(stderr, "line %d: %s is %d, not %s\n", __LINE__, #result, got_, #expected);       \
            _exit(1);                                                                                 \
        }                                                                                             \
    } while (0)

typedef VkstashResult (*Create)(const VkstashSessionDesc *, const VkstashAdapter *, const char *, VkstashSession *);
typedef VkstashResult (*Find)(VkstashSession, const void *, size_t, void *, size_t *);
typedef VkstashResult (*Store)(VkstashSession, const void *, size_t, const void *, size_t);
typedef VkstashResult (*Destroy)(VkstashSession);

static void *library;

/* POSIX allows the conversion; ISO C has no word for it. */
static void function(const char *name, void *to) {
    void *found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "no %s\n", name);
        _exit(1);
    }
    memcpy(to, &found, sizeof found);
}

int main(int count, char **arguments) {
    VkstashSessionDesc desc;
    VkstashSession session = 0, own = 0;
    Create create;
    Find find;
    Store store;
    Destroy destroy;
    size_t size = 0;
    int status = 1;
    pid_t child;

    EXPECT(count, 2);
    library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    EXPECT(library == NULL, 0);
    function("vkstash_create_session", &create);
    function("vkstash_find_value", &find);
    function("vkstash_store_value", &store);
    function("vkstash_destroy_session", &destroy);

    memset(&desc, 0, sizeof desc);
    desc.mode = VKSTASH_SESSION_MODE_DISK;
    EXPECT(create(&desc, NULL, NULL, &session), VKSTASH_SUCCESS);
    EXPECT(store(session, "key", 3, "value", 5), VKSTASH_SUCCESS);
    child = fork();
    if (child == 0) {
        EXPECT(find(session, "key", 3, NULL, &size), VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE);
        EXPECT(store(session, "child", 5, "value", 5), VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE);
        EXPECT(destroy(session), VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE);
        EXPECT(find(session + ((VkstashSession)5 << 36), "key", 3, NULL, &size), VKSTASH_ERROR_INVALID_HANDLE);
        EXPECT(create(&desc, NULL, NULL, &own), VKSTASH_SUCCESS);
        EXPECT(own == session, 0);
        EXPECT(find(own, "key", 3, NULL, &size), VKSTASH_SUCCESS);
        EXPECT(size, 5);
        EXPECT(store(own, "child", 5, "value", 5), VKSTASH_SUCCESS);
        _exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child, 1);
    EXPECT(status, 0);
    EXPECT(find(session, "key", 3, NULL, &size), VKSTASH_SUCCESS);
    EXPECT(find(session, "child", 5, NULL, &size), VKSTASH_SUCCESS);
    EXPECT(destroy(session), VKSTASH_SUCCESS);
    puts("done");
    return 0;
}
