//! Fossilize's JSON, from and to Vulkan's create infos.
