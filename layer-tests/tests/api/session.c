/* A program that uses sessions through the C API. With the argument "store" it stores, with "find" it expects what another
 * process has stored. Also compiled as C++. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vkstash.h"

#define EXPECT(result, expected)                                                                      \
    do {                                                                                              \
        int got_ = (int)(result);                                                                     \
        if (got_ != (int)(expected)) {                                                                \
            fprintf(stderr, "line %d: %s is %d, not %s\n", __LINE__, #result, got_, #expected);       \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

static VkstashSessionDesc description(void) {
    VkstashSessionDesc desc;
    memset(&desc, 0, sizeof desc);
    desc.identifier.data1 = 0x01234567u;
    desc.identifier.data4[7] = 0xef;
    desc.mode = VKSTASH_SESSION_MODE_DISK;
    desc.flags = VKSTASH_SESSION_FLAG_DRIVER_VERSIONED;
    desc.version = 7;
    return desc;
}

static VkstashAdapter adapter(void) {
    VkstashAdapter adapter;
    memset(&adapter, 0, sizeof adapter);
    adapter.vendor_id = 0x1002;
    adapter.driver_version = 1;
    return adapter;
}

static void bad_input(VkstashSession session) {
    const VkstashAdapter on = adapter();
    VkstashSessionDesc desc = description();
    VkstashSession other = 5;
    size_t size = 8;
    char buffer[8];

    EXPECT(vkstash_create_session(NULL, &on, NULL, &other), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(other, 0);
    EXPECT(vkstash_create_session(&desc, &on, NULL, NULL), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_create_session(&desc, NULL, NULL, &other), VKSTASH_ERROR_INVALID_ARGUMENT);
    desc.mode = 2;
    EXPECT(vkstash_create_session(&desc, &on, NULL, &other), VKSTASH_ERROR_INVALID_ARGUMENT);
    desc = description();
    desc.flags |= 0x80000000u;
    EXPECT(vkstash_create_session(&desc, &on, NULL, &other), VKSTASH_ERROR_INVALID_ARGUMENT);
    desc = description();
    desc.version = 8;
    EXPECT(vkstash_create_session(&desc, &on, "api test", &other), VKSTASH_ERROR_ALREADY_EXISTS);

    EXPECT(vkstash_find_value(session, NULL, 3, NULL, &size), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_find_value(session, "key", 0, NULL, &size), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_find_value(session, "key", 3, buffer, NULL), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_find_value(session, "key", 0xffffffffu, NULL, &size), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_find_value(session, "key", (size_t)-1, NULL, &size), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_store_value(session, NULL, 3, "x", 1), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_store_value(session, "k", 1, NULL, 1), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_store_value(session, "k", 0, "x", 1), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_store_value(session, "k", 1, "x", 0), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_store_value(session, "k", 0xffffffffu, "x", 1), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_store_value(session, "k", 1, "x", 0xffffffffu), VKSTASH_ERROR_CACHE_FULL);
    EXPECT(vkstash_store_value(session, "k", 1, "x", (size_t)-1), VKSTASH_ERROR_CACHE_FULL);
    EXPECT(vkstash_get_session_desc(session, NULL), VKSTASH_ERROR_INVALID_ARGUMENT);

    {
        const VkstashSession wild[] = {0, 1, 42, session + 1, session - 1, session << 1, (VkstashSession)-1};
        size_t i;
        for (i = 0; i < sizeof wild / sizeof *wild; ++i) {
            EXPECT(vkstash_find_value(wild[i], "key", 3, NULL, &size), VKSTASH_ERROR_INVALID_HANDLE);
            EXPECT(vkstash_store_value(wild[i], "key", 3, "x", 1), VKSTASH_ERROR_INVALID_HANDLE);
            EXPECT(vkstash_set_delete_on_destroy(wild[i]), VKSTASH_ERROR_INVALID_HANDLE);
            EXPECT(vkstash_get_session_desc(wild[i], &desc), VKSTASH_ERROR_INVALID_HANDLE);
            EXPECT(vkstash_destroy_session(wild[i]), i == 0 ? VKSTASH_SUCCESS : VKSTASH_ERROR_INVALID_HANDLE);
        }
    }
}

static void control(VkstashSession session) {
    size_t size = 0;
    const uint32_t sessions = VKSTASH_CACHE_KIND_APPLICATION_MANAGED;
    const uint32_t all = VKSTASH_CACHE_KIND_IMPLICIT_FOR_DRIVER | VKSTASH_CACHE_KIND_IMPLICIT_CONVERSIONS |
                         VKSTASH_CACHE_KIND_IMPLICIT_DRIVER_MANAGED | VKSTASH_CACHE_KIND_APPLICATION_MANAGED;
    uint32_t kind, cleared = 0;
    const uint32_t off = VKSTASH_CACHE_CONTROL_DISABLE, on = VKSTASH_CACHE_CONTROL_ENABLE;
    EXPECT(vkstash_cache_control(sessions, 0, NULL), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_cache_control(sessions, off | on, NULL), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_cache_control(0, off, NULL), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_cache_control(0x10, off, NULL), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_cache_control(sessions, 0x8, NULL), VKSTASH_ERROR_INVALID_ARGUMENT);
    if (getenv("VKSTASH_DEVELOPER_MODE") == NULL) {
        for (kind = 1; kind <= all; ++kind) {
            EXPECT(vkstash_cache_control(kind, off, NULL), VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE);
        }
        return;
    }
    /* Every combination of kinds with every allowed combination of controls. */
    for (kind = 1; kind <= all; ++kind) {
        EXPECT(vkstash_cache_control(kind, off | VKSTASH_CACHE_CONTROL_CLEAR, "another test"), VKSTASH_SUCCESS);
        EXPECT(vkstash_find_value(session, "key", 3, NULL, &size),
               kind & sessions ? VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE
                               : cleared ? VKSTASH_ERROR_NOT_FOUND : VKSTASH_SUCCESS);
        EXPECT(vkstash_cache_control(kind, on, NULL), VKSTASH_SUCCESS);
        EXPECT(vkstash_cache_control(kind, off | on, NULL), VKSTASH_ERROR_INVALID_ARGUMENT);
        cleared |= kind & sessions;
    }
    /* All sessions of this process were cleared, wherever their stash is. */
    EXPECT(vkstash_store_value(session, "key", 3, "value", 6), VKSTASH_SUCCESS);
    EXPECT(vkstash_cache_control(sessions, off, NULL), VKSTASH_SUCCESS);
    EXPECT(vkstash_find_value(session, "key", 3, NULL, &size), VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE);
    EXPECT(vkstash_cache_control(sessions, on, NULL), VKSTASH_SUCCESS);
    EXPECT(vkstash_find_value(session, "key", 3, NULL, &size), VKSTASH_SUCCESS);
    EXPECT(vkstash_cache_control(sessions, VKSTASH_CACHE_CONTROL_CLEAR, NULL), VKSTASH_SUCCESS);
    EXPECT(vkstash_find_value(session, "key", 3, NULL, &size), VKSTASH_ERROR_NOT_FOUND);
}

static void queries(VkstashSession session) {
    VkstashAdapter driver = adapter();
    VkstashCacheStatistics counted;
    const uint32_t compilations = VKSTASH_CACHE_KIND_IMPLICIT_FOR_DRIVER;
    uint32_t support = 99;
    EXPECT(vkstash_get_cache_support(NULL, &support), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_get_cache_support(&driver, NULL), VKSTASH_ERROR_INVALID_ARGUMENT);
    driver.driver_id = 3; /* VK_DRIVER_ID_MESA_RADV */
    EXPECT(vkstash_get_cache_support(&driver, &support), VKSTASH_SUCCESS);
    EXPECT(support, 0x1f);
    driver.driver_id = 13; /* VK_DRIVER_ID_MESA_LLVMPIPE */
    EXPECT(vkstash_get_cache_support(&driver, &support), VKSTASH_SUCCESS);
    EXPECT(support, VKSTASH_CACHE_SUPPORT_SINGLE_PIPELINE | VKSTASH_CACHE_SUPPORT_LIBRARY);
    EXPECT(vkstash_get_cache_statistics(compilations, NULL), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_get_cache_statistics(3, &counted), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_get_cache_statistics(VKSTASH_CACHE_KIND_IMPLICIT_DRIVER_MANAGED, &counted), VKSTASH_ERROR_NOT_SUPPORTED);
    EXPECT(vkstash_get_cache_statistics(VKSTASH_CACHE_KIND_IMPLICIT_CONVERSIONS, &counted), VKSTASH_SUCCESS);
    EXPECT(counted.created + counted.missed_in_stash + counted.missed_anywhere, 0);
    {
        VkstashCacheStatistics after;
        char value[8];
        size_t size = sizeof value;
        const uint32_t sessions = VKSTASH_CACHE_KIND_APPLICATION_MANAGED;
        EXPECT(vkstash_get_cache_statistics(sessions, &counted), VKSTASH_SUCCESS);
        EXPECT(vkstash_find_value(session, "key", 3, NULL, &size), VKSTASH_SUCCESS);
        EXPECT(vkstash_find_value(session, "key", 3, value, &size), VKSTASH_SUCCESS);
        EXPECT(vkstash_find_value(session, "none", 4, NULL, &size), VKSTASH_ERROR_NOT_FOUND);
        EXPECT(vkstash_get_cache_statistics(sessions, &after), VKSTASH_SUCCESS);
        EXPECT(after.created - counted.created, 2);
        EXPECT(after.missed_in_stash - counted.missed_in_stash, 1);
        EXPECT(after.missed_anywhere - counted.missed_anywhere, 1);
    }
    EXPECT(vkstash_get_cache_statistics(compilations, &counted), VKSTASH_SUCCESS);
    EXPECT(counted.created + counted.missed_in_stash + counted.missed_anywhere, 0);
}

static void identifiers(void) {
    uint32_t code[8] = {0x07230203u, 0x00010000u, 0, 8, 0, 1, 2, 3};
    VkstashModuleIdentifier first, second;
    EXPECT(vkstash_get_module_identifier(0, NULL, 32, &first), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_get_module_identifier(0, code, 32, NULL), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_get_module_identifier(0, code, 0, &first), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_get_module_identifier(0, code, 31, &first), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_get_module_identifier(0, code + 1, 28, &first), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_get_module_identifier(0, code, (size_t)-4, &first), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_get_module_identifier(0, code, sizeof code, &first), VKSTASH_SUCCESS);
    EXPECT(memcmp(first.algorithm_uuid, "vkstash-sha256-1", 16), 0);
    EXPECT(vkstash_get_module_identifier(0, code, sizeof code, &second), VKSTASH_SUCCESS);
    EXPECT(memcmp(&first, &second, sizeof first), 0);
    EXPECT(vkstash_get_module_identifier(1, code, sizeof code, &second), VKSTASH_SUCCESS);
    EXPECT(memcmp(first.identifier, second.identifier, 32) == 0, 0);
    EXPECT(vkstash_get_module_identifier(0, code, sizeof code - 4, &second), VKSTASH_SUCCESS);
    EXPECT(memcmp(first.identifier, second.identifier, 32) == 0, 0);
}

static void background(void) {
    const uint32_t allowed = VKSTASH_BACKGROUND_MODE_ALLOWED;
    const uint32_t keep = VKSTASH_MEASUREMENTS_ACTION_KEEP_ALL, commit = VKSTASH_MEASUREMENTS_ACTION_COMMIT;
    const int is_developer = getenv("VKSTASH_DEVELOPER_MODE") != NULL;
    const VkstashResult limited = is_developer ? VKSTASH_SUCCESS : VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE;
    uint32_t mode, action, further = 99;
    int ends[2];
    char event[8];
    EXPECT(vkstash_set_background_mode(4, keep, -1, NULL), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_set_background_mode(allowed, 4, -1, NULL), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_set_background_mode(allowed, commit, -2, NULL), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(vkstash_set_background_mode(allowed, commit, 12345, NULL), VKSTASH_ERROR_INVALID_ARGUMENT);
    EXPECT(pipe(ends), 0);
    EXPECT(vkstash_set_background_mode(allowed, keep, ends[1], NULL), VKSTASH_ERROR_INVALID_ARGUMENT);
    for (mode = 0; mode < 4; ++mode) {
        for (action = 0; action < 4; ++action) {
            const int is_limited = mode >= VKSTASH_BACKGROUND_MODE_DISABLED ||
                                   action == VKSTASH_MEASUREMENTS_ACTION_COMMIT_HIGH_PRIORITY;
            EXPECT(vkstash_set_background_mode(mode, action, -1, NULL), is_limited ? limited : VKSTASH_SUCCESS);
        }
    }
    EXPECT(vkstash_set_background_mode(allowed, commit, ends[1], &further), VKSTASH_SUCCESS);
    EXPECT(further, 0);
    /* Nothing is to be done, so the event comes. */
    EXPECT(read(ends[0], event, sizeof event), 8);
    close(ends[0]);
    close(ends[1]);
}

static void *find_until_destroyed(void *handle) {
    const VkstashSession session = *(VkstashSession *)handle;
    for (;;) {
        char buffer[16];
        size_t size = sizeof buffer;
        const VkstashResult result = vkstash_find_value(session, "key", 3, buffer, &size);
        if (result == VKSTASH_ERROR_INVALID_HANDLE || result == VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE) {
            return NULL;
        }
        EXPECT(result, VKSTASH_SUCCESS);
        EXPECT(size, 6);
    }
}

int main(int count, char **arguments) {
    const VkstashAdapter on = adapter();
    VkstashSessionDesc desc = description(), same;
    VkstashSession session = 0, second = 0;
    pthread_t threads[4];
    char value[8];
    size_t size = 99;
    size_t i;

    EXPECT(count, 2);
    EXPECT(vkstash_create_session(&desc, &on, "api test", &session), VKSTASH_SUCCESS);
    EXPECT(session == 0, 0);
    if (strcmp(arguments[1], "store") == 0) {
        EXPECT(vkstash_find_value(session, "key", 3, NULL, &size), VKSTASH_ERROR_NOT_FOUND);
        EXPECT(vkstash_store_value(session, "key", 3, "value", 6), VKSTASH_SUCCESS);
        bad_input(session);
    }
    EXPECT(vkstash_store_value(session, "key", 3, "other", 6), VKSTASH_ERROR_ALREADY_EXISTS);
    EXPECT(vkstash_find_value(session, "key", 3, NULL, &size), VKSTASH_SUCCESS);
    EXPECT(size, 6);
    size = 5;
    memset(value, 1, sizeof value);
    EXPECT(vkstash_find_value(session, "key", 3, value, &size), VKSTASH_ERROR_BUFFER_TOO_SMALL);
    EXPECT(size, 6);
    EXPECT(value[0], 1);
    /* No more is written than the value has, whatever is claimed. */
    size = (size_t)-1;
    EXPECT(vkstash_find_value(session, "key", 3, value, &size), VKSTASH_SUCCESS);
    EXPECT(strcmp(value, "value"), 0);
    EXPECT(value[6], 1);
    EXPECT(vkstash_get_session_desc(session, &same), VKSTASH_SUCCESS);
    EXPECT(memcmp(&desc, &same, sizeof desc), 0);

    EXPECT(vkstash_create_session(&desc, &on, "api test", &second), VKSTASH_SUCCESS);
    for (i = 0; i < 4; ++i) {
        EXPECT(pthread_create(&threads[i], NULL, find_until_destroyed, &second), 0);
    }
    EXPECT(vkstash_find_value(session, "key", 3, NULL, &size), VKSTASH_SUCCESS);
    EXPECT(vkstash_destroy_session(second), VKSTASH_SUCCESS);
    for (i = 0; i < 4; ++i) {
        EXPECT(pthread_join(threads[i], NULL), 0);
    }
    EXPECT(vkstash_destroy_session(second), VKSTASH_ERROR_INVALID_HANDLE);
    if (strcmp(arguments[1], "find") == 0) {
        queries(session);
        identifiers();
        background();
        control(session);
    }
    if (getenv("DELETE") != NULL) {
        EXPECT(vkstash_set_delete_on_destroy(session), VKSTASH_SUCCESS);
    }
    EXPECT(vkstash_destroy_session(session), VKSTASH_SUCCESS);
    EXPECT(vkstash_find_value(session, "key", 3, NULL, &size), VKSTASH_ERROR_INVALID_HANDLE);
    puts("done");
    return 0;
}
