// A Vulkan driver for the suite layer-tests/tests/khronos.rs: the test driver of the Khronos loader's own tests,
// whose source scripts/khronos-icd.sh fetches, with the GPUs and commands below.
//
//   GPU 0 "alpha"  Vulkan 1.3, pipelineCreationCacheControl
//   GPU 1 "beta"   as alpha, and VK_EXT_shader_module_identifier
//   GPU 2 "gamma"  Vulkan 1.1, and neither
//
// Three commands are unknown to all headers and to the loader: one each for instance, physical device and device. (The
// loader takes the first one for a device command: it can be looked up, not called.) Each returns its arguments and the
// object it was called for, so that a caller sees what arrived. The driver has no ray tracing, no render passes and no
// merging of caches: those commands resolve to NULL.
//
// Objects are numbers. A "compiled" pipeline is a hash of the module's code; a cache holds such numbers behind the header
// that the specification requires.

#include "test_icd.cpp"
#include "test_util.cpp"

#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace {

constexpr char UNKNOWN_EXTENSION[] = "VK_VKSTASH_unheard_of";
constexpr uint32_t VENDOR = 0x10de00;
const uint8_t ALGORITHM[VK_UUID_SIZE] = {'k', 'h', 'r', 'o', 'n', 'o', 's', ' ', 'b', 'e', 't', 'a', 0, 0, 0, 1};

// --- the object of a call ---------------------------------------------------------------------------------------------

// The loader's tests store their devices in one of two ways, by version; only the matching one compiles.
template <typename Icd>
auto gpu_of(Icd& driver, VkDevice device, int) -> decltype(driver.lookup_device(device).phys_dev_index) {
    auto found = driver.lookup_device(device);
    return found.found ? found.phys_dev_index : ~0u;
}
template <typename Icd>
auto gpu_of(Icd& driver, VkDevice device, long) -> decltype(driver.created_device_details.size(), uint32_t()) {
    auto found = driver.created_device_details.find(device);
    if (found == driver.created_device_details.end()) return ~0u;
    auto gpu = driver.created_physical_device_details.find(found->second.physical_device_created_from);
    return gpu == driver.created_physical_device_details.end() ? ~0u : uint32_t(gpu->second.index_physical_device);
}

// The device id identifies a physical device, however it is stored.
uint32_t gpu_of(VkPhysicalDevice physical) {
    VkPhysicalDeviceProperties properties{};
    test_vkGetPhysicalDeviceProperties(physical, &properties);
    return properties.deviceID;
}

// --- unknown commands -------------------------------------------------------------------------------

struct Arrived {
    uint32_t gpu;
    uint32_t a;
    uint64_t b;
    float c;
};

VKAPI_ATTR VkResult VKAPI_CALL unheard_instance(VkInstance instance, uint32_t a, uint64_t b, float c, Arrived* out) {
    *out = Arrived{instance == VK_NULL_HANDLE ? ~0u : 100u, a, b, c};
    return VK_EVENT_SET;
}
VKAPI_ATTR VkResult VKAPI_CALL unheard_physical(VkPhysicalDevice gpu, uint32_t a, uint64_t b, float c, Arrived* out) {
    *out = Arrived{gpu_of(gpu), a, b, c};
    return VK_EVENT_SET;
}
VKAPI_ATTR VkResult VKAPI_CALL unheard_device(VkDevice device, uint32_t a, uint64_t b, float c, Arrived* out) {
    *out = Arrived{gpu_of(icd, device, 0), a, b, c};
    return VK_EVENT_SET;
}

// --- objects --------------------------------------------------------------------------------------------------

std::mutex lock;
uint64_t next_handle = 1;
std::map<uint64_t, uint64_t> modules;             // handle -> hash of the code
std::map<uint64_t, std::set<uint64_t>> caches;    // handle -> hashes compiled with it

template <typename Handle>
Handle handle(uint64_t number) {
    return (Handle)(uintptr_t)number;
}
template <typename Handle>
uint64_t number(Handle object) {
    return (uint64_t)(uintptr_t)object;
}

uint64_t hash(const void* data, size_t size) {
    uint64_t value = 0xcbf29ce484222325;
    for (size_t i = 0; i < size; i++) value = (value ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001b3;
    return value;
}

template <typename Info, typename Handle>
VKAPI_ATTR VkResult VKAPI_CALL create(VkDevice, const Info*, const VkAllocationCallbacks*, Handle* out) {
    std::lock_guard<std::mutex> guard(lock);
    *out = handle<Handle>(next_handle++);
    return VK_SUCCESS;
}
template <typename Handle>
VKAPI_ATTR void VKAPI_CALL destroy(VkDevice, Handle, const VkAllocationCallbacks*) {}

VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice, const VkShaderModuleCreateInfo* info,
                                             const VkAllocationCallbacks*, VkShaderModule* out) {
    std::lock_guard<std::mutex> guard(lock);
    modules[next_handle] = hash(info->pCode, info->codeSize);
    *out = handle<VkShaderModule>(next_handle++);
    return VK_SUCCESS;
}
VKAPI_ATTR void VKAPI_CALL destroy_module(VkDevice, VkShaderModule module, const VkAllocationCallbacks*) {
    std::lock_guard<std::mutex> guard(lock);
    modules.erase(number(module));
}

VkPipelineCacheHeaderVersionOne header(VkDevice device) {
    VkPipelineCacheHeaderVersionOne header{};
    const VkPhysicalDeviceProperties& gpu = icd.physical_devices.at(gpu_of(icd, device, 0)).properties;
    header.headerSize = sizeof header;
    header.headerVersion = VK_PIPELINE_CACHE_HEADER_VERSION_ONE;
    header.vendorID = gpu.vendorID;
    header.deviceID = gpu.deviceID;
    memcpy(header.pipelineCacheUUID, gpu.pipelineCacheUUID, VK_UUID_SIZE);
    return header;
}
VKAPI_ATTR VkResult VKAPI_CALL create_cache(VkDevice device, const VkPipelineCacheCreateInfo* info,
                                            const VkAllocationCallbacks*, VkPipelineCache* out) {
    std::lock_guard<std::mutex> guard(lock);
    std::set<uint64_t> contents;
    auto wanted = header(device);
    // Data of another GPU is ignored, as the specification says.
    if (info->initialDataSize >= sizeof wanted && memcmp(info->pInitialData, &wanted, sizeof wanted) == 0) {
        auto data = static_cast<const uint8_t*>(info->pInitialData);
        for (size_t at = sizeof wanted; at + sizeof(uint64_t) <= info->initialDataSize; at += sizeof(uint64_t)) {
            uint64_t value;
            memcpy(&value, data + at, sizeof value);
            contents.insert(value);
        }
    }
    caches[next_handle] = contents;
    *out = handle<VkPipelineCache>(next_handle++);
    return VK_SUCCESS;
}
VKAPI_ATTR void VKAPI_CALL destroy_cache(VkDevice, VkPipelineCache cache, const VkAllocationCallbacks*) {
    std::lock_guard<std::mutex> guard(lock);
    caches.erase(number(cache));
}
VKAPI_ATTR VkResult VKAPI_CALL get_cache_data(VkDevice device, VkPipelineCache cache, size_t* size, void* data) {
    std::lock_guard<std::mutex> guard(lock);
    const std::set<uint64_t>& contents = caches[number(cache)];
    auto head = header(device);
    size_t total = sizeof head + contents.size() * sizeof(uint64_t);
    if (data == nullptr) {
        *size = total;
        return VK_SUCCESS;
    }
    if (*size < total) {
        *size = 0;
        return VK_INCOMPLETE;
    }
    auto out = static_cast<uint8_t*>(data);
    memcpy(out, &head, sizeof head);
    out += sizeof head;
    for (uint64_t value : contents) {
        memcpy(out, &value, sizeof value);
        out += sizeof value;
    }
    *size = total;
    return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL create_compute(VkDevice, VkPipelineCache cache, uint32_t count,
                                              const VkComputePipelineCreateInfo* infos,
                                              const VkAllocationCallbacks*, VkPipeline* out) {
    std::lock_guard<std::mutex> guard(lock);
    VkResult result = VK_SUCCESS;
    for (uint32_t i = 0; i < count; i++) {
        out[i] = VK_NULL_HANDLE;
        auto module = modules.find(number(infos[i].stage.module));
        uint64_t code = module == modules.end() ? 0 : module->second;
        auto known = caches.find(number(cache));
        bool hit = code != 0 && known != caches.end() && known->second.count(code) != 0;
        if (!hit && (infos[i].flags & VK_PIPELINE_CREATE_FAIL_ON_PIPELINE_COMPILE_REQUIRED_BIT)) {
            result = VK_PIPELINE_COMPILE_REQUIRED;
            continue;
        }
        if (known != caches.end()) known->second.insert(code);
        out[i] = handle<VkPipeline>(next_handle++);
    }
    return result;
}

VKAPI_ATTR void VKAPI_CALL identifier_of(uint64_t code, VkShaderModuleIdentifierEXT* out) {
    out->identifierSize = sizeof code;
    memcpy(out->identifier, &code, sizeof code);
}
VKAPI_ATTR void VKAPI_CALL module_identifier(VkDevice, VkShaderModule module, VkShaderModuleIdentifierEXT* out) {
    std::lock_guard<std::mutex> guard(lock);
    identifier_of(modules[number(module)], out);
}
VKAPI_ATTR void VKAPI_CALL create_info_identifier(VkDevice, const VkShaderModuleCreateInfo* info,
                                                  VkShaderModuleIdentifierEXT* out) {
    identifier_of(hash(info->pCode, info->codeSize), out);
}

// The loader's tests use the last GPU's queues for every device.
std::map<VkDevice, DispatchableHandle<VkQueue>> queues;
VKAPI_ATTR void VKAPI_CALL get_queue(VkDevice device, uint32_t, uint32_t, VkQueue* out) {
    std::lock_guard<std::mutex> guard(lock);
    *out = queues[device].handle;
}
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_command(VkDevice device, const char* name) {
    if (strcmp(name, "vkGetDeviceQueue") == 0) return reinterpret_cast<PFN_vkVoidFunction>(get_queue);
    return test_vkGetDeviceProcAddr(device, name);
}

// --- features and properties, which the loader's tests lack ----------------------------------------------

VKAPI_ATTR void VKAPI_CALL features2(VkPhysicalDevice physical, VkPhysicalDeviceFeatures2* features) {
    test_vkGetPhysicalDeviceFeatures2(physical, features);
    uint32_t gpu = gpu_of(physical);
    for (auto node = static_cast<VkBaseOutStructure*>(features->pNext); node != nullptr; node = node->pNext) {
        void* found = node;
        if (node->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES) {
            static_cast<VkPhysicalDeviceVulkan13Features*>(found)->pipelineCreationCacheControl = gpu < 2;
        } else if (node->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_CREATION_CACHE_CONTROL_FEATURES) {
            static_cast<VkPhysicalDevicePipelineCreationCacheControlFeatures*>(found)->pipelineCreationCacheControl =
                gpu < 2;
        } else if (node->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MODULE_IDENTIFIER_FEATURES_EXT) {
            static_cast<VkPhysicalDeviceShaderModuleIdentifierFeaturesEXT*>(found)->shaderModuleIdentifier = gpu == 1;
        }
    }
}
VKAPI_ATTR void VKAPI_CALL properties2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2* properties) {
    test_vkGetPhysicalDeviceProperties2(physical, properties);
    for (auto node = static_cast<VkBaseOutStructure*>(properties->pNext); node != nullptr; node = node->pNext) {
        if (node->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MODULE_IDENTIFIER_PROPERTIES_EXT &&
            gpu_of(physical) == 1) {
            void* found = node;
            memcpy(static_cast<VkPhysicalDeviceShaderModuleIdentifierPropertiesEXT*>(found)
                       ->shaderModuleIdentifierAlgorithmUUID,
                   ALGORITHM, VK_UUID_SIZE);
        }
    }
}

// --- the configuration ----------------------------------------------------------------------------------------

template <typename Function>
VulkanFunction function(const char* name, Function* pointer) {
    VulkanFunction entry{};
    entry.name = name;
    entry.function = reinterpret_cast<PFN_vkVoidFunction>(pointer);
    return entry;
}

void add_gpu(uint32_t index, const char* name, uint32_t version) {
    icd.physical_devices.emplace_back(name);
    auto& gpu = icd.physical_devices.back();
    gpu.properties.apiVersion = version;
    gpu.properties.driverVersion = 7;
    gpu.properties.vendorID = VENDOR;
    gpu.properties.deviceID = index;
    gpu.properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_OTHER;
    strncpy(gpu.properties.deviceName, name, VK_MAX_PHYSICAL_DEVICE_NAME_SIZE - 1);
    memset(gpu.properties.pipelineCacheUUID, int('a' + index), VK_UUID_SIZE);
    // One core feature for each, a different one.
    gpu.features.robustBufferAccess = index == 0;
    gpu.features.geometryShader = index == 1;
    gpu.features.tessellationShader = index == 2;
    MockQueueFamilyProperties family{};
    family.properties.queueFlags = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
    family.properties.queueCount = 1;
    gpu.queue_family_properties.push_back(family);
    gpu.extensions.push_back(Extension(UNKNOWN_EXTENSION, 3));
    if (index == 1) {
        gpu.extensions.push_back(Extension(VK_EXT_SHADER_MODULE_IDENTIFIER_EXTENSION_NAME, 1));
        gpu.extensions.push_back(Extension(VK_EXT_PIPELINE_CREATION_CACHE_CONTROL_EXTENSION_NAME, 3));
    }
}

struct Configuration {
    Configuration() {
        icd.icd_api_version = VK_API_VERSION_1_3;
        icd.physical_devices.reserve(3);
        add_gpu(0, "alpha", VK_API_VERSION_1_3);
        add_gpu(1, "beta", VK_API_VERSION_1_3);
        add_gpu(2, "gamma", VK_API_VERSION_1_1);
        icd.custom_instance_functions.push_back(function("vkUnheardOfInstanceVKSTASH", unheard_instance));
        auto& gpu = icd.physical_devices.front();
        gpu.custom_physical_device_functions.push_back(function("vkUnheardOfPhysicalDeviceVKSTASH", unheard_physical));
        gpu.known_device_functions = {
            function("vkUnheardOfDeviceVKSTASH", unheard_device),
            function("vkCreateShaderModule", create_module),
            function("vkDestroyShaderModule", destroy_module),
            function("vkCreateDescriptorSetLayout", create<VkDescriptorSetLayoutCreateInfo, VkDescriptorSetLayout>),
            function("vkDestroyDescriptorSetLayout", destroy<VkDescriptorSetLayout>),
            function("vkCreatePipelineLayout", create<VkPipelineLayoutCreateInfo, VkPipelineLayout>),
            function("vkDestroyPipelineLayout", destroy<VkPipelineLayout>),
            function("vkCreatePipelineCache", create_cache),
            function("vkDestroyPipelineCache", destroy_cache),
            function("vkGetPipelineCacheData", get_cache_data),
            function("vkCreateComputePipelines", create_compute),
            function("vkDestroyPipeline", destroy<VkPipeline>),
            function("vkGetShaderModuleIdentifierEXT", module_identifier),
            function("vkGetShaderModuleCreateInfoIdentifierEXT", create_info_identifier),
        };
    }
} configuration;

PFN_vkVoidFunction instead(const char* name) {
    std::string wanted = name;
    if (wanted == "vkGetPhysicalDeviceFeatures2") return reinterpret_cast<PFN_vkVoidFunction>(features2);
    if (wanted == "vkGetPhysicalDeviceProperties2") return reinterpret_cast<PFN_vkVoidFunction>(properties2);
    if (wanted == "vkGetDeviceProcAddr") return reinterpret_cast<PFN_vkVoidFunction>(get_device_command);
    return nullptr;
}

}  // namespace

// The loader prefers these to vkGetInstanceProcAddr, which test_icd.cpp exports.
extern "C" {
FRAMEWORK_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vk_icdGetInstanceProcAddr(VkInstance instance,
                                                                                     const char* name) {
    PFN_vkVoidFunction ours = instance == VK_NULL_HANDLE ? nullptr : instead(name);
    return ours != nullptr ? ours : base_get_instance_proc_addr(instance, name);
}
FRAMEWORK_EXPORT VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vk_icdGetPhysicalDeviceProcAddr(VkInstance instance,
                                                                                           const char* name) {
    // Not a physical-device command.
    PFN_vkVoidFunction ours = strcmp(name, "vkGetDeviceProcAddr") == 0 ? nullptr : instead(name);
    return ours != nullptr ? ours : get_physical_device_func(instance, name);
}
FRAMEWORK_EXPORT VKAPI_ATTR VkResult VKAPI_CALL vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t* version) {
    return test_vk_icdNegotiateLoaderICDInterfaceVersion(version);
}
}
