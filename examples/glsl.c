/* A translator in small: GLSL to SPIR-V with glslang, kept in a session of vkstash, and pipelines that are asked for by
 * identifier, so that a run whose pipelines are known needs no SPIR-V at all.
 *
 *     cc -std=c11 -Iinclude examples/glsl.c -o glsl $(pkg-config --libs vulkan spirv) \
 *         -lglslang-default-resource-limits -lstdc++ -lm
 *     VKSTASH=1 ./glsl         translates everything
 *     VKSTASH=1 ./glsl         translates nothing
 *     VKSTASH=1 ./glsl 2       is version 2 of the translator: translates everything anew
 *
 * Without the layer, and on drivers without identifiers, it translates whatever it needs. Packages on Debian:
 * libvulkan-dev, glslang-dev and spirv-tools. Errors that end it are told by the number of the line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glslang/Include/glslang_c_interface.h>
#include <glslang/Public/resource_limits_c.h>
#include <vulkan/vulkan.h>

#include "vkstash.h"

#define SHADERS 8
#define NEED(condition) ((condition) ? (void)0 : failed(__LINE__))

static void failed(int line) {
    fprintf(stderr, "glsl.c: line %d\n", line);
    exit(1);
}

/* A session, and the functions that it needs; session is 0 where there is no vkstash, or the user has disabled it. */
typedef struct Stash {
    VkstashResult (*create)(const VkstashSessionDesc *, const VkstashAdapter *, const char *, VkstashSession *);
    VkstashResult (*find)(VkstashSession, const void *, size_t, void *, size_t *);
    VkstashResult (*store)(VkstashSession, const void *, size_t, const void *, size_t);
    VkstashResult (*destroy)(VkstashSession);
    VkstashSession session;
} Stash;

typedef struct Device {
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkPipelineLayout layout;
    VkBool32 has_identifiers;
    uint8_t algorithm[VK_UUID_SIZE]; /* whose identifiers they are */
    PFN_vkGetShaderModuleIdentifierEXT get_identifier;
} Device;

/* What the session has of a shader beside its SPIR-V. */
typedef struct Known {
    uint8_t algorithm[VK_UUID_SIZE];
    uint32_t size;
    uint8_t identifier[VK_MAX_SHADER_MODULE_IDENTIFIER_SIZE_EXT];
} Known;

/* Fills a pointer to a function; with NULL, if the device was created without vkstash. */
static void look_up(VkDevice device, const char *name, void *to) {
    PFN_vkVoidFunction function = vkGetDeviceProcAddr(device, name);
    memcpy(to, &function, sizeof function);
}

static Stash open_stash(VkDevice device, uint64_t version) {
    /* Choose a GUID of your own. The default of 1 KB and 128 entries in memory is small. */
    const VkstashSessionDesc desc = {
        .identifier = {0x0c6d2f4b, 0x91a7, 0x4d3e, {0x8b, 0x52, 0x6e, 0x1f, 0xa0, 0x37, 0xc4, 0x98}},
        .mode = VKSTASH_SESSION_MODE_DISK,
        .maximum_in_memory_cache_size_bytes = 16u << 20,
        .maximum_in_memory_cache_entries = 4096,
        .version = version,
    };
    Stash stash = {0};
    look_up(device, "vkstash_create_session", &stash.create);
    look_up(device, "vkstash_find_value", &stash.find);
    look_up(device, "vkstash_store_value", &stash.store);
    look_up(device, "vkstash_destroy_session", &stash.destroy);
    /* session stays 0 after an error. The name is the pApplicationName of the program. */
    if (stash.create && stash.find && stash.store && stash.destroy)
        stash.create(&desc, NULL, "glsl", &stash.session);
    return stash;
}

static int has_extension(VkPhysicalDevice physical, const char *name) {
    uint32_t count = 0;
    NEED(vkEnumerateDeviceExtensionProperties(physical, NULL, &count, NULL) == VK_SUCCESS);
    VkExtensionProperties *all = calloc(count + 1, sizeof *all);
    NEED(all && vkEnumerateDeviceExtensionProperties(physical, NULL, &count, all) == VK_SUCCESS);
    int found = 0;
    for (uint32_t i = 0; i < count; i++) found |= strcmp(all[i].extensionName, name) == 0;
    free(all);
    return found;
}

/* The first device. Identifiers are switched on where it has them, by itself or by the layer. */
static Device open_device(void) {
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "glsl", .apiVersion = VK_API_VERSION_1_3};
    const VkInstanceCreateInfo instance = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    Device made = {0};
    uint32_t one = 1;
    NEED(vkCreateInstance(&instance, NULL, &made.instance) == VK_SUCCESS);
    NEED(vkEnumeratePhysicalDevices(made.instance, &one, &made.physical) >= 0 && one == 1);

    VkPhysicalDeviceShaderModuleIdentifierFeaturesEXT identifiers = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MODULE_IDENTIFIER_FEATURES_EXT};
    VkPhysicalDevicePipelineCreationCacheControlFeatures control = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES};
    const char *const name = VK_EXT_SHADER_MODULE_IDENTIFIER_EXTENSION_NAME;
    if (has_extension(made.physical, name)) control.pNext = &identifiers;
    VkPhysicalDeviceFeatures2 features = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &control};
    vkGetPhysicalDeviceFeatures2(made.physical, &features);
    made.has_identifiers = identifiers.shaderModuleIdentifier && control.pipelineCreationCacheControl;

    VkPhysicalDeviceShaderModuleIdentifierPropertiesEXT algorithm = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MODULE_IDENTIFIER_PROPERTIES_EXT};
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = made.has_identifiers ? &algorithm : NULL};
    vkGetPhysicalDeviceProperties2(made.physical, &properties);
    memcpy(made.algorithm, algorithm.shaderModuleIdentifierAlgorithmUUID, VK_UUID_SIZE);

    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
    features.features = (VkPhysicalDeviceFeatures){0};
    const VkDeviceCreateInfo device = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = made.has_identifiers ? &features : NULL,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = &queue,
        .enabledExtensionCount = made.has_identifiers,
        .ppEnabledExtensionNames = &name,
    };
    NEED(vkCreateDevice(made.physical, &device, NULL, &made.device) == VK_SUCCESS);
    made.get_identifier =
        (PFN_vkGetShaderModuleIdentifierEXT)vkGetDeviceProcAddr(made.device, "vkGetShaderModuleIdentifierEXT");
    const VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    NEED(vkCreatePipelineLayout(made.device, &layout, NULL, &made.layout) == VK_SUCCESS);
    return made;
}

/* The value of a kind ('i': Known, 's': SPIR-V) for this source; NULL: the session has none. */
static void *find(const Stash *stash, char kind, const char *source, size_t *size) {
    char key[512];
    int length = snprintf(key, sizeof key, "%c%s", kind, source);
    *size = 0;
    if (stash->session == 0 || stash->find(stash->session, key, (size_t)length, NULL, size) != VKSTASH_SUCCESS)
        return NULL;
    void *value = malloc(*size);
    NEED(value);
    if (stash->find(stash->session, key, (size_t)length, value, size) == VKSTASH_SUCCESS) return value;
    free(value);
    return NULL;
}

/* A failure costs the next run a translation, and nothing else. */
static void store(const Stash *stash, char kind, const char *source, const void *value, size_t size) {
    char key[512];
    int length = snprintf(key, sizeof key, "%c%s", kind, source);
    if (stash->session != 0) stash->store(stash->session, key, (size_t)length, value, size);
}

static VkPipeline create(const Device *device, VkPipelineShaderStageCreateInfo stage, VkPipelineCreateFlags flags) {
    stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    stage.pName = "main";
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .flags = flags,
        .stage = stage,
        .layout = device->layout,
    };
    VkPipeline pipeline = VK_NULL_HANDLE;
    /* VK_PIPELINE_COMPILE_REQUIRED is a positive code, and leaves VK_NULL_HANDLE. */
    NEED(vkCreateComputePipelines(device->device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline) >= 0);
    return pipeline;
}

/* The pipeline, if it can be had without SPIR-V. */
static VkPipeline by_identifier(const Device *device, const Stash *stash, const char *source) {
    size_t size;
    Known *known = find(stash, 'i', source, &size);
    VkPipeline pipeline = VK_NULL_HANDLE;
    /* Identifiers of another driver, or of the layer where the driver has its own now, name nothing. */
    if (known && size == sizeof *known && device->has_identifiers &&
        memcmp(known->algorithm, device->algorithm, VK_UUID_SIZE) == 0) {
        const VkPipelineShaderStageModuleIdentifierCreateInfoEXT identifier = {
            .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_MODULE_IDENTIFIER_CREATE_INFO_EXT,
            .identifierSize = known->size,
            .pIdentifier = known->identifier,
        };
        pipeline = create(device, (VkPipelineShaderStageCreateInfo){.pNext = &identifier},
                          VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT);
    }
    free(known);
    return pipeline;
}

/* The pipeline from SPIR-V. The identifier of the module is noted for the next run. */
static VkPipeline by_code(const Device *device, const Stash *stash, const char *source, const void *code, size_t size) {
    const VkShaderModuleCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = size, .pCode = code};
    VkShaderModule module;
    NEED(vkCreateShaderModule(device->device, &info, NULL, &module) == VK_SUCCESS);
    VkPipeline pipeline = create(device, (VkPipelineShaderStageCreateInfo){.module = module}, 0);
    if (device->has_identifiers) {
        VkShaderModuleIdentifierEXT identifier = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_IDENTIFIER_EXT};
        device->get_identifier(device->device, module, &identifier);
        Known known = {.size = identifier.identifierSize};
        memcpy(known.algorithm, device->algorithm, VK_UUID_SIZE);
        memcpy(known.identifier, identifier.identifier, sizeof known.identifier);
        store(stash, 'i', source, &known, sizeof known);
    }
    vkDestroyShaderModule(device->device, module, NULL);
    return pipeline;
}

/* The program with the SPIR-V, for glslang_program_delete. */
static glslang_program_t *translate(const char *source) {
    const glslang_input_t input = {
        .language = GLSLANG_SOURCE_GLSL,
        .stage = GLSLANG_STAGE_COMPUTE,
        .client = GLSLANG_CLIENT_VULKAN,
        .client_version = GLSLANG_TARGET_VULKAN_1_3,
        .target_language = GLSLANG_TARGET_SPV,
        .target_language_version = GLSLANG_TARGET_SPV_1_6,
        .code = source,
        .default_version = 450,
        .default_profile = GLSLANG_CORE_PROFILE,
        .messages = GLSLANG_MSG_DEFAULT_BIT,
        .resource = glslang_default_resource(),
    };
    const int messages = GLSLANG_MSG_SPV_RULES_BIT | GLSLANG_MSG_VULKAN_RULES_BIT;
    glslang_shader_t *shader = glslang_shader_create(&input);
    NEED(shader && glslang_shader_preprocess(shader, &input) && glslang_shader_parse(shader, &input));
    glslang_program_t *program = glslang_program_create();
    glslang_program_add_shader(program, shader);
    NEED(glslang_program_link(program, messages));
    glslang_program_SPIRV_generate(program, GLSLANG_STAGE_COMPUTE);
    glslang_shader_delete(shader);
    return program;
}

int main(int count, char **arguments) {
    const Device device = open_device();
    const Stash stash = open_stash(device.device, count > 1 ? strtoull(arguments[1], NULL, 10) : 1);
    NEED(glslang_initialize_process());
    int identified = 0, found = 0, translated = 0;
    for (int i = 0; i < SHADERS; i++) {
        /* The whole source is the key: everything that decides the result. */
        char source[256];
        snprintf(source, sizeof source, "#version 450\nlayout(local_size_x = %d) in;\nshared uint sum;\n"
                 "void main() { atomicAdd(sum, gl_LocalInvocationIndex * %du); }\n", 32 << i % 2, i + 1);
        VkPipeline pipeline = by_identifier(&device, &stash, source);
        size_t size;
        void *code = pipeline ? NULL : find(&stash, 's', source, &size);
        if (pipeline) {
            identified++;
        } else if (code) {
            found++;
            pipeline = by_code(&device, &stash, source, code, size);
        } else {
            translated++;
            glslang_program_t *program = translate(source);
            void *made = glslang_program_SPIRV_get_ptr(program);
            size = glslang_program_SPIRV_get_size(program) * sizeof(uint32_t);
            store(&stash, 's', source, made, size);
            pipeline = by_code(&device, &stash, source, made, size);
            glslang_program_delete(program);
        }
        free(code);
        NEED(pipeline);
        vkDestroyPipeline(device.device, pipeline, NULL);
    }
    printf("%d pipelines by identifier, %d from SPIR-V of the session, %d translated\n", identified, found, translated);
    glslang_finalize_process();
    if (stash.session != 0) stash.destroy(stash.session);
    vkDestroyPipelineLayout(device.device, device.layout, NULL);
    vkDestroyDevice(device.device, NULL);
    vkDestroyInstance(device.instance, NULL);
    return 0;
}
