//! `cudaDeviceProp`, as CUDA 12 and as CUDA 13 lay it out.
//!
//! The two differ in fields that come and go in the middle. The name of the entry point selects the
//! version: with the headers of CUDA 12 it is `cudaGetDeviceProperties_v2`.

use std::ffi::c_int;

use super::attribute;
use crate::machine::machine;
use crate::status::{INVALID_DEVICE, SUCCESS, record_error};
use crate::visible_devices::uuid_bytes;
use floodmark_phantom_control::Settings;

/// As CUDA 12 has it.
#[repr(C)]
struct Properties12 {
    name: [u8; 256],
    uuid: [u8; 16],
    luid: [u8; 8],
    luidDeviceNodeMask: u32,
    totalGlobalMem: usize,
    sharedMemPerBlock: usize,
    regsPerBlock: c_int,
    warpSize: c_int,
    memPitch: usize,
    maxThreadsPerBlock: c_int,
    maxThreadsDim: [c_int; 3],
    maxGridSize: [c_int; 3],
    clockRate: c_int,
    totalConstMem: usize,
    major: c_int,
    minor: c_int,
    textureAlignment: usize,
    texturePitchAlignment: usize,
    deviceOverlap: c_int,
    multiProcessorCount: c_int,
    kernelExecTimeoutEnabled: c_int,
    integrated: c_int,
    canMapHostMemory: c_int,
    computeMode: c_int,
    maxTexture1D: c_int,
    maxTexture1DMipmap: c_int,
    maxTexture1DLinear: c_int,
    maxTexture2D: [c_int; 2],
    maxTexture2DMipmap: [c_int; 2],
    maxTexture2DLinear: [c_int; 3],
    maxTexture2DGather: [c_int; 2],
    maxTexture3D: [c_int; 3],
    maxTexture3DAlt: [c_int; 3],
    maxTextureCubemap: c_int,
    maxTexture1DLayered: [c_int; 2],
    maxTexture2DLayered: [c_int; 3],
    maxTextureCubemapLayered: [c_int; 2],
    maxSurface1D: c_int,
    maxSurface2D: [c_int; 2],
    maxSurface3D: [c_int; 3],
    maxSurface1DLayered: [c_int; 2],
    maxSurface2DLayered: [c_int; 3],
    maxSurfaceCubemap: c_int,
    maxSurfaceCubemapLayered: [c_int; 2],
    surfaceAlignment: usize,
    concurrentKernels: c_int,
    ECCEnabled: c_int,
    pciBusID: c_int,
    pciDeviceID: c_int,
    pciDomainID: c_int,
    tccDriver: c_int,
    asyncEngineCount: c_int,
    unifiedAddressing: c_int,
    memoryClockRate: c_int,
    memoryBusWidth: c_int,
    l2CacheSize: c_int,
    persistingL2CacheMaxSize: c_int,
    maxThreadsPerMultiProcessor: c_int,
    streamPrioritiesSupported: c_int,
    globalL1CacheSupported: c_int,
    localL1CacheSupported: c_int,
    sharedMemPerMultiprocessor: usize,
    regsPerMultiprocessor: c_int,
    managedMemory: c_int,
    isMultiGpuBoard: c_int,
    multiGpuBoardGroupID: c_int,
    hostNativeAtomicSupported: c_int,
    singleToDoublePrecisionPerfRatio: c_int,
    pageableMemoryAccess: c_int,
    concurrentManagedAccess: c_int,
    computePreemptionSupported: c_int,
    canUseHostPointerForRegisteredMem: c_int,
    cooperativeLaunch: c_int,
    cooperativeMultiDeviceLaunch: c_int,
    sharedMemPerBlockOptin: usize,
    pageableMemoryAccessUsesHostPageTables: c_int,
    directManagedMemAccessFromHost: c_int,
    maxBlocksPerMultiProcessor: c_int,
    accessPolicyMaxWindowSize: c_int,
    reservedSharedMemPerBlock: usize,
    hostRegisterSupported: c_int,
    sparseCudaArraySupported: c_int,
    hostRegisterReadOnlySupported: c_int,
    timelineSemaphoreInteropSupported: c_int,
    memoryPoolsSupported: c_int,
    gpuDirectRDMASupported: c_int,
    gpuDirectRDMAFlushWritesOptions: u32,
    gpuDirectRDMAWritesOrdering: c_int,
    memoryPoolSupportedHandleTypes: u32,
    deferredMappingCudaArraySupported: c_int,
    ipcEventSupported: c_int,
    clusterLaunch: c_int,
    unifiedFunctionPointers: c_int,
    reserved2: [c_int; 2],
    reserved: [c_int; 61],
}

/// As CUDA 13 has it.
#[repr(C)]
struct Properties13 {
    name: [u8; 256],
    uuid: [u8; 16],
    luid: [u8; 8],
    luidDeviceNodeMask: u32,
    totalGlobalMem: usize,
    sharedMemPerBlock: usize,
    regsPerBlock: c_int,
    warpSize: c_int,
    memPitch: usize,
    maxThreadsPerBlock: c_int,
    maxThreadsDim: [c_int; 3],
    maxGridSize: [c_int; 3],
    totalConstMem: usize,
    major: c_int,
    minor: c_int,
    textureAlignment: usize,
    texturePitchAlignment: usize,
    multiProcessorCount: c_int,
    integrated: c_int,
    canMapHostMemory: c_int,
    maxTexture1D: c_int,
    maxTexture1DMipmap: c_int,
    maxTexture2D: [c_int; 2],
    maxTexture2DMipmap: [c_int; 2],
    maxTexture2DLinear: [c_int; 3],
    maxTexture2DGather: [c_int; 2],
    maxTexture3D: [c_int; 3],
    maxTexture3DAlt: [c_int; 3],
    maxTextureCubemap: c_int,
    maxTexture1DLayered: [c_int; 2],
    maxTexture2DLayered: [c_int; 3],
    maxTextureCubemapLayered: [c_int; 2],
    maxSurface1D: c_int,
    maxSurface2D: [c_int; 2],
    maxSurface3D: [c_int; 3],
    maxSurface1DLayered: [c_int; 2],
    maxSurface2DLayered: [c_int; 3],
    maxSurfaceCubemap: c_int,
    maxSurfaceCubemapLayered: [c_int; 2],
    surfaceAlignment: usize,
    concurrentKernels: c_int,
    ECCEnabled: c_int,
    pciBusID: c_int,
    pciDeviceID: c_int,
    pciDomainID: c_int,
    tccDriver: c_int,
    asyncEngineCount: c_int,
    unifiedAddressing: c_int,
    memoryBusWidth: c_int,
    l2CacheSize: c_int,
    persistingL2CacheMaxSize: c_int,
    maxThreadsPerMultiProcessor: c_int,
    streamPrioritiesSupported: c_int,
    globalL1CacheSupported: c_int,
    localL1CacheSupported: c_int,
    sharedMemPerMultiprocessor: usize,
    regsPerMultiprocessor: c_int,
    managedMemory: c_int,
    isMultiGpuBoard: c_int,
    multiGpuBoardGroupID: c_int,
    hostNativeAtomicSupported: c_int,
    pageableMemoryAccess: c_int,
    concurrentManagedAccess: c_int,
    computePreemptionSupported: c_int,
    canUseHostPointerForRegisteredMem: c_int,
    cooperativeLaunch: c_int,
    sharedMemPerBlockOptin: usize,
    pageableMemoryAccessUsesHostPageTables: c_int,
    directManagedMemAccessFromHost: c_int,
    maxBlocksPerMultiProcessor: c_int,
    accessPolicyMaxWindowSize: c_int,
    reservedSharedMemPerBlock: usize,
    hostRegisterSupported: c_int,
    sparseCudaArraySupported: c_int,
    hostRegisterReadOnlySupported: c_int,
    timelineSemaphoreInteropSupported: c_int,
    memoryPoolsSupported: c_int,
    gpuDirectRDMASupported: c_int,
    gpuDirectRDMAFlushWritesOptions: u32,
    gpuDirectRDMAWritesOrdering: c_int,
    memoryPoolSupportedHandleTypes: u32,
    deferredMappingCudaArraySupported: c_int,
    ipcEventSupported: c_int,
    clusterLaunch: c_int,
    unifiedFunctionPointers: c_int,
    deviceNumaConfig: c_int,
    deviceNumaId: c_int,
    mpsEnabled: c_int,
    hostNumaId: c_int,
    gpuPciDeviceID: u32,
    gpuPciSubsystemID: u32,
    hostNumaMultinodeIpcSupported: c_int,
    reserved: [c_int; 56],
}

/// Sets the fields that both have, by their common names.
macro_rules! common {
    ($properties:ident, $settings:ident, $device:ident) => {
        let numbered = |which| attribute(which, $device).unwrap_or(0);
        let name = $settings.name.as_bytes();
        let length = name.len().min($properties.name.len() - 1);
        $properties.name[..length].copy_from_slice(&name[..length]);
        $properties.uuid = uuid_bytes(usize::try_from(numbered(33)).unwrap_or(0).saturating_sub(1));
        $properties.totalGlobalMem = usize::try_from($settings.memory).unwrap_or(usize::MAX);
        $properties.sharedMemPerBlock = usize::try_from(numbered(8)).unwrap_or(0);
        $properties.regsPerBlock = numbered(12);
        $properties.warpSize = numbered(10);
        $properties.memPitch = 0x7fff_ffff;
        $properties.maxThreadsPerBlock = numbered(1);
        $properties.maxThreadsDim = [numbered(2), numbered(3), numbered(4)];
        $properties.maxGridSize = [numbered(5), numbered(6), numbered(7)];
        $properties.totalConstMem = 65_536;
        ($properties.major, $properties.minor) = $settings.capability;
        $properties.textureAlignment = 512;
        $properties.texturePitchAlignment = 32;
        $properties.multiProcessorCount = $settings.multiprocessors;
        $properties.canMapHostMemory = 1;
        $properties.maxTexture2D = [131_072, 65_536];
        $properties.maxTexture3D = [16_384; 3];
        $properties.surfaceAlignment = 512;
        $properties.concurrentKernels = 1;
        $properties.ECCEnabled = 1;
        $properties.pciBusID = numbered(33);
        $properties.asyncEngineCount = numbered(40);
        $properties.unifiedAddressing = 1;
        $properties.memoryBusWidth = $settings.bus_width;
        $properties.l2CacheSize = $settings.l2;
        $properties.persistingL2CacheMaxSize = numbered(108);
        $properties.maxThreadsPerMultiProcessor = $settings.threads_per_multiprocessor;
        $properties.streamPrioritiesSupported = 1;
        $properties.globalL1CacheSupported = 1;
        $properties.localL1CacheSupported = 1;
        $properties.sharedMemPerMultiprocessor = usize::try_from(numbered(81)).unwrap_or(0);
        $properties.regsPerMultiprocessor = $settings.registers_per_multiprocessor;
        $properties.managedMemory = 1;
        $properties.concurrentManagedAccess = 1;
        $properties.computePreemptionSupported = 1;
        $properties.cooperativeLaunch = 1;
        $properties.sharedMemPerBlockOptin = usize::try_from(numbered(97)).unwrap_or(0);
        $properties.maxBlocksPerMultiProcessor = $settings.blocks_per_multiprocessor;
        $properties.accessPolicyMaxWindowSize = numbered(109);
        $properties.reservedSharedMemPerBlock = usize::try_from(numbered(111)).unwrap_or(0);
        $properties.hostRegisterSupported = 1;
        $properties.memoryPoolsSupported = 1;
        $properties.memoryPoolSupportedHandleTypes = 1;
        $properties.clusterLaunch = numbered(120);
    };
}

#[crate::entry_point]
unsafe extern "C" fn cudaGetDeviceProperties_v2(to: *mut Properties12, device: c_int) -> i32 {
    let Some(settings) = settings_of(device) else { return record_error(INVALID_DEVICE) };
    // SAFETY: a struct of numbers, for which all zeros is a value.
    let mut properties: Properties12 = unsafe { std::mem::zeroed() };
    common!(properties, settings, device);
    properties.clockRate = settings.clock_khz;
    properties.memoryClockRate = settings.memory_clock_khz;
    properties.deviceOverlap = 1;
    properties.singleToDoublePrecisionPerfRatio = 2;
    properties.cooperativeMultiDeviceLaunch = 1;
    // SAFETY: the caller's struct has this layout: it was built with the headers of CUDA 12.
    unsafe { to.write(properties) };
    SUCCESS
}

#[crate::entry_point]
unsafe extern "C" fn cudaGetDeviceProperties(to: *mut Properties13, device: c_int) -> i32 {
    let Some(settings) = settings_of(device) else { return record_error(INVALID_DEVICE) };
    // SAFETY: a struct of numbers, for which all zeros is a value.
    let mut properties: Properties13 = unsafe { std::mem::zeroed() };
    common!(properties, settings, device);
    // SAFETY: the caller's struct has this layout: it was built with the headers of CUDA 13.
    unsafe { to.write(properties) };
    SUCCESS
}

fn settings_of(device: c_int) -> Option<&'static Settings> {
    let machine = machine()?;
    let device = usize::try_from(device).ok()?;
    (device < machine.device_count()).then_some(&machine.settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes that the compilers of CUDA 12.1 and 13.0 give the struct.
    #[test]
    fn the_structs_are_as_large_as_cudas() {
        assert_eq!(size_of::<Properties12>(), 1032);
        assert_eq!(size_of::<Properties13>(), 1008);
    }
}
