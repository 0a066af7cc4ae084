/* vkstash: shader cache sessions, control over caches and background work, and identifiers, for programs and
 * translators; docs/sessions.md describes them.
 *
 * Made of src/api/ by `VKSTASH_PUBLISH_GOLDEN=1 cargo test -p vkstash --lib api::tests`: change that. */
#ifndef VKSTASH_H
#define VKSTASH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call answers. docs/sessions.md has the values of D3D12 that correspond. */
typedef enum VkstashResult {
    /* Done. */
    VKSTASH_SUCCESS = 0,
    /* NULL where something must be, a size of 0, an unknown flag, or a key that is too long. */
    VKSTASH_ERROR_INVALID_ARGUMENT = -1,
    /* Not the handle of a live session. */
    VKSTASH_ERROR_INVALID_HANDLE = -2,
    /* There is no entry with this key. */
    VKSTASH_ERROR_NOT_FOUND = -3,
    /* There is an entry with this key; or the cache is open with another mode, other flags or another version. */
    VKSTASH_ERROR_ALREADY_EXISTS = -4,
    /* The entry would make the cache larger than its maximum. */
    VKSTASH_ERROR_CACHE_FULL = -5,
    /* There is an entry whose key is another one with the same hash. */
    VKSTASH_ERROR_HASH_COLLISION = -6,
    /* Disabled, busy, without a folder, or a session of the parent in a forked process. */
    VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE = -7,
    /* The value is longer than the buffer. Its size is returned. */
    VKSTASH_ERROR_BUFFER_TOO_SMALL = -8,
    /* The entry is damaged on disk. Storing it again replaces it. */
    VKSTASH_ERROR_DAMAGED = -9,
    /* A file or folder is not the cache's, or others may write to it. It is left as it is. */
    VKSTASH_ERROR_REFUSED = -10,
    /* The cache can be read only. */
    VKSTASH_ERROR_READ_ONLY = -11,
    /* The file system is full, or a limit of the process is reached. */
    VKSTASH_ERROR_DISK_FULL = -12,
    /* There is not enough memory. */
    VKSTASH_ERROR_OUT_OF_MEMORY = -13,
    /* Another error of the system. */
    VKSTASH_ERROR_IO = -14,
    /* This version does not do that. */
    VKSTASH_ERROR_NOT_SUPPORTED = -15,
    /* A fault of the library. Nothing was changed that the program could see. */
    VKSTASH_ERROR_INTERNAL = -16
} VkstashResult;

/* The entries are in memory, and end with the last session. */
#define VKSTASH_SESSION_MODE_MEMORY 0u

/* The entries are in files. */
#define VKSTASH_SESSION_MODE_DISK 1u

/* Each adapter has a cache of its own, and another driver wipes it. */
#define VKSTASH_SESSION_FLAG_DRIVER_VERSIONED 0x1u

/* The files lie in the working directory. */
#define VKSTASH_SESSION_FLAG_USE_WORKING_DIR 0x2u

/* The cache of what drivers compile. */
#define VKSTASH_CACHE_KIND_IMPLICIT_FOR_DRIVER 0x1u

/* The cache of conversions between kinds of shaders. */
#define VKSTASH_CACHE_KIND_IMPLICIT_CONVERSIONS 0x2u

/* The driver's own cache. */
#define VKSTASH_CACHE_KIND_IMPLICIT_DRIVER_MANAGED 0x4u

/* The caches of sessions. */
#define VKSTASH_CACHE_KIND_APPLICATION_MANAGED 0x8u

/* Nothing is looked up or stored from now on. */
#define VKSTASH_CACHE_CONTROL_DISABLE 0x1u

/* The end of VKSTASH_CACHE_CONTROL_DISABLE. */
#define VKSTASH_CACHE_CONTROL_ENABLE 0x2u

/* All entries are deleted. */
#define VKSTASH_CACHE_CONTROL_CLEAR 0x4u

/* Pipelines can be kept one by one. */
#define VKSTASH_CACHE_SUPPORT_SINGLE_PIPELINE 0x1u

/* Pipelines can be kept in a VkPipelineCache. */
#define VKSTASH_CACHE_SUPPORT_LIBRARY 0x2u

/* The stash finds again what this process has compiled. */
#define VKSTASH_CACHE_SUPPORT_AUTOMATIC_INPROC_CACHE 0x4u

/* The stash finds again what earlier processes have compiled. */
#define VKSTASH_CACHE_SUPPORT_AUTOMATIC_DISK_CACHE 0x8u

/* The driver has a cache of its own. */
#define VKSTASH_CACHE_SUPPORT_DRIVER_MANAGED_CACHE 0x10u

/* Background work that does not slow the program down. */
#define VKSTASH_BACKGROUND_MODE_ALLOWED 0u

/* Rich measurements matter more than a smooth run. */
#define VKSTASH_BACKGROUND_MODE_ALLOW_INTRUSIVE_MEASUREMENTS 1u

/* No background work. */
#define VKSTASH_BACKGROUND_MODE_DISABLED 2u

/* No background work, and nothing that adapts to measurements. */
#define VKSTASH_BACKGROUND_MODE_PROFILING 3u

/* Measurements stay, and more are made. */
#define VKSTASH_MEASUREMENTS_ACTION_KEEP_ALL 0u

/* The workload was shown completely: what is worth doing is done now. */
#define VKSTASH_MEASUREMENTS_ACTION_COMMIT 1u

/* As COMMIT, by more threads, also while the machine is busy. */
#define VKSTASH_MEASUREMENTS_ACTION_COMMIT_HIGH_PRIORITY 2u

/* Measurements so far are forgotten. */
#define VKSTASH_MEASUREMENTS_ACTION_DISCARD_PREVIOUS 3u

/* A session. 0 is none. */
typedef uint64_t VkstashSession;

/* A GUID, as Windows has it. */
typedef struct VkstashGuid {
    uint32_t data1;
    uint16_t data2;
    uint16_t data3;
    uint8_t data4[8];
} VkstashGuid;

/* What a program asks for. Sizes and numbers of 0 mean the defaults. */
typedef struct VkstashSessionDesc {
    /* The cache. Sessions with the same identifier share it. */
    VkstashGuid identifier;
    /* VKSTASH_SESSION_MODE_... */
    uint32_t mode;
    /* VKSTASH_SESSION_FLAG_... */
    uint32_t flags;
    /* Bytes of keys and values in memory; 0 means 1024. */
    uint32_t maximum_in_memory_cache_size_bytes;
    /* Entries in memory; 0 means 128. */
    uint32_t maximum_in_memory_cache_entries;
    /* Length of the value file; 0 means 134217728. */
    uint32_t maximum_value_file_size_bytes;
    /* Must be 0. */
    uint32_t reserved;
    /* Another version than that of the files wipes the cache. */
    uint64_t version;
} VkstashSessionDesc;

/* The adapter and the driver of a driver-versioned cache, with the values that Vulkan gives them. */
typedef struct VkstashAdapter {
    /* VkPhysicalDeviceProperties::vendorID */
    uint32_t vendor_id;
    /* VkPhysicalDeviceProperties::deviceID */
    uint32_t device_id;
    /* VkPhysicalDeviceDriverProperties::driverID, or 0 */
    uint32_t driver_id;
    /* VkPhysicalDeviceProperties::driverVersion */
    uint32_t driver_version;
    /* VkPhysicalDeviceIDProperties::deviceUUID */
    uint8_t device_uuid[16];
    /* VkPhysicalDeviceProperties::pipelineCacheUUID */
    uint8_t pipeline_cache_uuid[16];
} VkstashAdapter;

/* What was created, and what was missing. */
typedef struct VkstashCacheStatistics {
    /* Pipelines and modules that were created, however that was done; of sessions, values that were asked for. */
    uint64_t created;
    /* Those of `created` that the stash did not have. */
    uint64_t missed_in_stash;
    /* Those of `created` that no cache had: a driver compiled them, or the program has to make them. */
    uint64_t missed_anywhere;
} VkstashCacheStatistics;

/* What the layer calls a shader module. */
typedef struct VkstashModuleIdentifier {
    /* VkShaderModuleIdentifierEXT::identifier, of 32 bytes */
    uint8_t identifier[32];
    /* VkPhysicalDeviceShaderModuleIdentifierPropertiesEXT::shaderModuleIdentifierAlgorithmUUID */
    uint8_t algorithm_uuid[16];
} VkstashModuleIdentifier;

/* A function of this header, to be cast to its own type. */
typedef void (*VkstashFunction)(void);

/* The function of this header with this name; NULL: this version has none. On a device that was created with the
 * layer, vkGetDeviceProcAddr gives the same functions. vkGetInstanceProcAddr does not: the Vulkan loader gives a
 * function of its own for a name that it does not know, which takes a VkDevice first. */
VkstashFunction vkstash_get_proc_addr(
    const char *name);

/* Creates a session, and opens or creates its cache.
 *
 * adapter is needed with VKSTASH_SESSION_FLAG_DRIVER_VERSIONED, and may be NULL otherwise. application_name is
 * VkApplicationInfo::pApplicationName of the program, or NULL: the caches of a program are in its stash, whose folder
 * VKSTASH_DIR names as for the layer. Sessions of one process with the same identifier share one cache, which lies
 * where the first one has opened it, and may become as large as the largest of their maximums. *session is 0 after an
 * error. */
VkstashResult vkstash_create_session(
    const VkstashSessionDesc *desc,
    const VkstashAdapter *adapter,
    const char *application_name,
    VkstashSession *session);

/* Finds the value of a key, which is compared as a whole.
 *
 * With value NULL, *value_size becomes the size of the value. Otherwise *value_size says how many bytes value has room
 * for, and becomes the size of the value, also with VKSTASH_ERROR_BUFFER_TOO_SMALL. After an error value is unchanged.
 * key and value must not overlap. */
VkstashResult vkstash_find_value(
    VkstashSession session,
    const void *key,
    size_t key_size,
    void *value,
    size_t *value_size);

/* Adds an entry. When this returns VKSTASH_SUCCESS, the entry of a cache on disk outlives the process. */
VkstashResult vkstash_store_value(
    VkstashSession session,
    const void *key,
    size_t key_size,
    const void *value,
    size_t value_size);

/* Deletes the entries when the last session of the cache is destroyed. */
VkstashResult vkstash_set_delete_on_destroy(
    VkstashSession session);

/* Returns the description that the session was created with. */
VkstashResult vkstash_get_session_desc(
    VkstashSession session,
    VkstashSessionDesc *desc);

/* Destroys a session. 0 is no session, and no error. Other threads may be using the session: their calls end as they
 * would have. */
VkstashResult vkstash_destroy_session(
    VkstashSession session);

/* Changes what caches do in this process: control is a combination of VKSTASH_CACHE_CONTROL_..., for each of kinds, a
 * combination of VKSTASH_CACHE_KIND_...
 *
 * DISABLE and ENABLE exclude each other, and at least one control is needed. ENABLE ends what DISABLE began, and not
 * what the user has disabled in the settings. CLEAR means the stash of the program that application_name names as in
 * vkstash_create_session, and all sessions of this process; VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE after CLEAR says
 * that other running programs still write to some of it, which stays. For the driver's own cache all controls are
 * hints: DISABLE counts for devices that are created afterwards, if their driver can be told, and CLEAR does nothing.
 *
 * Only in developer mode (VKSTASH_DEVELOPER_MODE=1, or the setting); otherwise the answer is
 * VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE, and nothing is done. */
VkstashResult vkstash_cache_control(
    uint32_t kinds,
    uint32_t control,
    const char *application_name);

/* Says which caches there are for a device: *support becomes a combination of VKSTASH_CACHE_SUPPORT_...
 *
 * Whether a driver has a cache of its own is known of its driver ID and of the environment. */
VkstashResult vkstash_get_cache_support(
    const VkstashAdapter *adapter,
    uint32_t *support);

/* Counts what this process has created so far. What is counted depends on kind, which is one of
 * VKSTASH_CACHE_KIND_...: pipelines (IMPLICIT_FOR_DRIVER) and shader modules (IMPLICIT_CONVERSIONS) on all devices
 * that were created with the layer, and values that sessions were asked for (APPLICATION_MANAGED), where a find for
 * the size alone counts if there is none. What drivers keep themselves nobody counts: the answer is
 * VKSTASH_ERROR_NOT_SUPPORTED. */
VkstashResult vkstash_get_cache_statistics(
    uint32_t kind,
    VkstashCacheStatistics *statistics);

/* Sets what background work may do in this process, and says what becomes of the measurements so far.
 *
 * mode is VKSTASH_BACKGROUND_MODE_..., action VKSTASH_MEASUREMENTS_ACTION_... With one of the two actions COMMIT,
 * completion_event may be a descriptor, for instance of an eventfd: the number 1 is written to it, as 8 bytes, when
 * all tasks of the commit have been run or cancelled. Otherwise it must be -1. The descriptor is copied. Unless it is
 * NULL, *further_measurements_desired becomes 1 if running the workload again would show something new, and 0
 * otherwise.
 *
 * The modes DISABLED and PROFILING and the action COMMIT_HIGH_PRIORITY need developer mode; without it the answer is
 * VKSTASH_ERROR_NOT_CURRENTLY_AVAILABLE, and nothing is changed. What the user has set (VKSTASH_BACKGROUND, vkstash
 * background) stays in force where it forbids work. */
VkstashResult vkstash_set_background_mode(
    uint32_t mode,
    uint32_t action,
    int32_t completion_event,
    uint32_t *further_measurements_desired);

/* Says which identifier the layer gives a shader module with these flags and this code, without a device: what
 * vkGetShaderModuleCreateInfoIdentifierEXT gives on a device with the layer's identifiers, that is on one whose
 * shaderModuleIdentifierAlgorithmUUID is algorithm_uuid. code_size is in bytes, as in VkShaderModuleCreateInfo. What
 * does not begin as SPIR-V is an invalid argument. */
VkstashResult vkstash_get_module_identifier(
    uint32_t flags,
    const uint32_t *code,
    size_t code_size,
    VkstashModuleIdentifier *identifier);

#ifdef __cplusplus
}
#endif

#endif
