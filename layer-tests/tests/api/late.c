/* Uses sessions where thread-local storage is gone: in destructors of thread-specific data, which run after those of
 * thread-local variables, and in exit handlers. Counts the descriptors that stay open. */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vkstash.h"

#define EXPECT(result, expected)                                                                \
    do {                                                                                        \
        int got_ = (int)(result);                                                               \
        if (got_ != (int)(expected)) {                                                          \
            fprintf(stderr, "line %d: %s is %d, not %s\n", __LINE__, #result, got_, #expected); \
            _exit(1);                                                                           \
        }                                                                                       \
    } while (0)

static VkstashSession in_memory, on_disk;
static pthread_key_t key;

static VkstashSessionDesc description(uint8_t number, uint32_t mode) {
    VkstashSessionDesc desc;
    memset(&desc, 0, sizeof desc);
    desc.identifier.data4[0] = number;
    desc.mode = mode;
    return desc;
}

static VkstashSession create(uint8_t number, uint32_t mode) {
    const VkstashSessionDesc desc = description(number, mode);
    VkstashSession session = 0;
    EXPECT(vkstash_create_session(&desc, NULL, "late test", &session), VKSTASH_SUCCESS);
    return session;
}

/* All calls on sessions that others have created, and on one of its own. */
static void all_calls(uint8_t number) {
    char name[4] = {'a', 'b', (char)number, 0};
    char value[8];
    size_t size, i;
    VkstashSessionDesc desc;
    VkstashSession all[3];
    all[0] = in_memory;
    all[1] = on_disk;
    all[2] = create(number, VKSTASH_SESSION_MODE_DISK);
    for (i = 0; i < 3; ++i) {
        EXPECT(vkstash_store_value(all[i], name, sizeof name, "value", 6), VKSTASH_SUCCESS);
        EXPECT(vkstash_find_value(all[i], name, sizeof name, NULL, &size), VKSTASH_SUCCESS);
        EXPECT(size, 6);
        size = sizeof value;
        EXPECT(vkstash_find_value(all[i], name, sizeof name, value, &size), VKSTASH_SUCCESS);
        EXPECT(strcmp(value, "value"), 0);
        EXPECT(vkstash_find_value(all[i], "missing", 7, NULL, &size), VKSTASH_ERROR_NOT_FOUND);
        EXPECT(vkstash_get_session_desc(all[i], &desc), VKSTASH_SUCCESS);
    }
    EXPECT(vkstash_set_delete_on_destroy(all[2]), VKSTASH_SUCCESS);
    EXPECT(vkstash_destroy_session(all[2]), VKSTASH_SUCCESS);
    EXPECT(vkstash_destroy_session(all[2]), VKSTASH_ERROR_INVALID_HANDLE);
}

static int descriptors(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    EXPECT(folder == NULL, 0);
    while (readdir(folder) != NULL) {
        ++count;
    }
    closedir(folder);
    return count;
}

static void at_the_end_of_a_thread(void *number) {
    all_calls((uint8_t)(size_t)number);
}

static void *thread(void *number) {
    EXPECT(pthread_setspecific(key, number), 0);
    /* Thread-local variables of the library are made, and destroyed before the key's destructor runs. */
    EXPECT(vkstash_destroy_session(create((uint8_t)(128 + (size_t)number), VKSTASH_SESSION_MODE_DISK)), VKSTASH_SUCCESS);
    return NULL;
}

static void at_exit(void) {
    const int before = descriptors();
    all_calls(200);
    EXPECT(descriptors(), before);
    EXPECT(vkstash_destroy_session(in_memory), VKSTASH_SUCCESS);
    EXPECT(vkstash_destroy_session(on_disk), VKSTASH_SUCCESS);
    EXPECT(descriptors() < before, 1);
    puts("done");
    fflush(stdout);
}

int main(int count, char **arguments) {
    pthread_t threads[16];
    size_t i;
    int before;
    (void)arguments;
    EXPECT(count, 2);
    EXPECT(atexit(at_exit), 0);
    in_memory = create(1, VKSTASH_SESSION_MODE_MEMORY);
    on_disk = create(2, VKSTASH_SESSION_MODE_DISK);
    EXPECT(pthread_key_create(&key, at_the_end_of_a_thread), 0);
    before = descriptors();
    for (i = 0; i < 16; ++i) {
        EXPECT(pthread_create(&threads[i], NULL, thread, (void *)(i + 10)), 0);
    }
    for (i = 0; i < 16; ++i) {
        EXPECT(pthread_join(threads[i], NULL), 0);
    }
    EXPECT(descriptors(), before);
    return 0;
}
