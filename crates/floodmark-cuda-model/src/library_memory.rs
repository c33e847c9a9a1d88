//! Device memory that CUDA and its libraries allocate for themselves, outside torch's allocator.
//!
//! It comes with the first use of a library and with each handle, graph and communicator, and stays until those are
//! destroyed. The figures are increments of the memory in use on an H200 (driver 580, CUDA 13.0, torch 2.11), where each act was done
//! alone and in several orders: `bench/results/outside-torch.md`. They repeated to the byte. On another GPU, and with other
//! versions, they are an assumption.

const MIB: u64 = 1 << 20;
/// Drivers allocate in pages of this size.
const PAGE: u64 = 2 * MIB;

/// Who holds the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Library {
    /// The code of torch's kernels, and their local memory.
    Kernels,
    /// cuBLAS and cuBLASLt.
    Cublas,
    /// cuDNN.
    Cudnn,
    /// cuSOLVER.
    Cusolver,
    /// cuFFT.
    Cufft,
    /// Streams beside the default stream.
    Streams,
    /// Graphs that are ready to be launched.
    Graphs,
    /// NCCL's communicators.
    Nccl,
}

impl Library {
    /// All of them, in the order of a report.
    pub const ALL: [Self; 8] = [
        Self::Kernels,
        Self::Cublas,
        Self::Cudnn,
        Self::Cusolver,
        Self::Cufft,
        Self::Streams,
        Self::Graphs,
        Self::Nccl,
    ];

    /// Its name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernels => "kernels",
            Self::Cublas => "cuBLAS",
            Self::Cudnn => "cuDNN",
            Self::Cusolver => "cuSOLVER",
            Self::Cufft => "cuFFT",
            Self::Streams => "streams",
            Self::Graphs => "CUDA graphs",
            Self::Nccl => "NCCL",
        }
    }
}

/// What a program does for which a library allocates memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Launches a kernel.
    Kernel,
    /// Creates a handle of cuBLAS. torch has one for each thread that multiplies: autograd's thread has its own.
    CublasHandle,
    /// Creates a handle of cuDNN, of which torch has one for each thread too.
    CudnnHandle,
    /// Creates a handle of cuSOLVER.
    CusolverHandle,
    /// Plans a transform of cuFFT.
    FftPlan,
    /// Creates a stream.
    Stream,
    /// Instantiates a graph of that many nodes.
    Graph(u64),
    /// Creates a communicator.
    Communicator(Communicator),
    /// Sends the first large message through a communicator of several ranks.
    LargeMessages,
}

/// What a communicator of NCCL allocates memory by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Communicator {
    /// How many channels it has: 64, or `NCCL_MAX_NCHANNELS`.
    pub channels: u64,
    /// Whether it allocates with `cuMem…` functions: unless `NCCL_CUMEM_ENABLE=0`.
    pub uses_virtual_memory: bool,
}

impl Default for Communicator {
    fn default() -> Self {
        Self { channels: 64, uses_virtual_memory: true }
    }
}

impl Communicator {
    fn bytes(self) -> u64 {
        let buffers = if self.uses_virtual_memory { 4 } else { 130 };
        (buffers + 6 * self.channels.clamp(1, 64)) * MIB
    }
}

/// A message of this size or more needs buffers that a communicator does not have from the start.
pub const LARGE_MESSAGE: u64 = MIB;
/// What a communicator of several ranks allocates for large messages. Fitted to public start-up logs of vLLM 0.19 (NCCL 2.27) on 2
/// and 4 H100 with NVLink, whose processes grew by 1.82 GiB more than those on one GPU; it is not divided into causes.
const LARGE_MESSAGES: u64 = 1_864 * MIB;

/// What the libraries of a process hold on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LibraryMemory {
    is_eager: bool,
    is_before_hopper: bool,
    /// One, once there is any; so are `plans`, `streams` and `nccl_code`.
    kernels: u64,
    cublas_handles: u64,
    cudnn_handles: u64,
    cusolver_handles: u64,
    plans: u64,
    streams: u64,
    graph_nodes: u64,
    nccl_code: u64,
    /// Bytes.
    communicators: u64,
}

impl LibraryMemory {
    /// What they hold at the start, on a GPU of that major compute capability. `is_eager`: libraries load all of their code
    /// at once (`CUDA_MODULE_LOADING=EAGER`).
    pub fn new(capability: u32, is_eager: bool) -> Self {
        Self { is_eager, is_before_hopper: capability < 9, ..Self::default() }
    }

    /// cuBLAS's documentation recommends a workspace of 32 MiB from Hopper on, and of 4 MiB before. The handle of an H200 has
    /// twice the former; twice the latter is assumed.
    fn handle_of_cublas(&self) -> u64 {
        if self.is_before_hopper { 8 } else { 64 }
    }

    /// The same after something was done.
    #[must_use]
    pub fn with(mut self, what: Use) -> Self {
        match what {
            Use::Kernel => self.kernels = 1,
            Use::CublasHandle => self.cublas_handles += 1,
            Use::CudnnHandle => self.cudnn_handles += 1,
            Use::CusolverHandle => self.cusolver_handles += 1,
            Use::FftPlan => self.plans = 1,
            Use::Stream => self.streams = 1,
            Use::Graph(nodes) => self.graph_nodes += nodes,
            Use::Communicator(communicator) => {
                self.nccl_code = 1;
                self.communicators += communicator.bytes();
            }
            Use::LargeMessages => self.communicators += LARGE_MESSAGES,
        }
        self
    }

    /// The same after a graph, a communicator or its buffers were destroyed. Handles, streams and code stay: torch keeps them.
    #[must_use]
    pub fn without(mut self, what: Use) -> Self {
        match what {
            Use::Graph(nodes) => self.graph_nodes = self.graph_nodes.saturating_sub(nodes),
            Use::Communicator(communicator) => {
                self.communicators = self.communicators.saturating_sub(communicator.bytes());
            }
            Use::LargeMessages => {
                self.communicators = self.communicators.saturating_sub(LARGE_MESSAGES);
            }
            Use::Kernel
            | Use::CublasHandle
            | Use::CudnnHandle
            | Use::CusolverHandle
            | Use::FftPlan
            | Use::Stream => {}
        }
        self
    }

    /// What one of them holds.
    pub fn bytes_of(&self, library: Library) -> u64 {
        // The code once, and then each handle. A handle's figure is that of its workspace.
        let handles = |count: u64, code: (u64, u64), each: u64| {
            let code = if self.is_eager { code.1 } else { code.0 };
            if count == 0 { 0 } else { (code + count * each) * MIB }
        };
        match library {
            Library::Kernels if self.is_eager => 732 * MIB,
            Library::Kernels => self.kernels * 92 * MIB,
            Library::Cublas => handles(self.cublas_handles, (2, 454), self.handle_of_cublas()),
            Library::Cudnn => handles(self.cudnn_handles, (2, 256), 8),
            // It has a handle of cuBLAS inside.
            Library::Cusolver => handles(self.cusolver_handles, (34, 86), self.handle_of_cublas()),
            Library::Cufft => handles(self.plans, (0, 6), 8),
            Library::Streams => self.streams * 70 * MIB,
            // Small graphs fit into what the context has.
            Library::Graphs => (self.graph_nodes * 2560).saturating_sub(4 * MIB) / PAGE * PAGE,
            Library::Nccl => self.nccl_code * 100 * MIB + self.communicators,
        }
    }

    /// What all of them hold.
    pub fn bytes(&self) -> u64 {
        Library::ALL.iter().map(|&library| self.bytes_of(library)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In MiB, what lies on the device beside the context after these.
    fn after(uses: &[Use]) -> u64 {
        uses.iter().fold(LibraryMemory::default(), |held, &what| held.with(what)).bytes() / MIB
    }

    /// Each figure is that of a program on an H200.
    #[test]
    fn programs_hold_what_they_held_on_a_gpu() {
        use Use::{CublasHandle, CudnnHandle, CusolverHandle, FftPlan, Kernel, Stream};
        assert_eq!(after(&[]), 0);
        let eager = [Kernel, CublasHandle].iter();
        let eager = eager.fold(LibraryMemory::new(9, true), |held, &what| held.with(what));
        assert_eq!(eager.bytes() / MIB, 732 + 518);
        let older = LibraryMemory::new(8, false).with(CublasHandle).with(CublasHandle);
        assert_eq!(older.bytes() / MIB, 18);
        assert_eq!(after(&[Kernel, Kernel]), 92, "elementwise");
        assert_eq!(after(&[Kernel, CublasHandle]), 158, "a product");
        assert_eq!(after(&[Kernel, CublasHandle, CublasHandle]), 222, "a product and its gradient");
        assert_eq!(after(&[Kernel, CudnnHandle]), 102, "a convolution");
        assert_eq!(after(&[Kernel, CudnnHandle, CudnnHandle]), 110, "with its gradient");
        assert_eq!(after(&[Kernel, CusolverHandle]), 190, "Cholesky");
        let process = [Kernel, CublasHandle, CublasHandle, CusolverHandle];
        assert_eq!(after(&process), 320, "a Gaussian process");
        assert_eq!(after(&[Kernel, FftPlan, FftPlan]), 100);
        assert_eq!(after(&[Kernel, Stream, Stream]), 162);
        assert_eq!(after(&[Kernel, CublasHandle, CublasHandle, Stream]), 292, "a graphed callable");
        assert_eq!(after(&[Kernel, Stream, Use::Graph(1_000)]), 162);
        assert_eq!(after(&[Kernel, Stream, Use::Graph(20_000)]), 206);
        assert!(
            (236..=240).contains(&after(&[[Kernel, Stream], [Use::Graph(16_000); 2]].concat()))
        );
    }

    #[test]
    fn communicators_hold_what_they_held_on_a_gpu() {
        let of = |channels, uses_virtual_memory| {
            Use::Communicator(Communicator { channels, uses_virtual_memory })
        };
        let first = |what| after(&[Use::Kernel, Use::Stream, what]);
        assert_eq!(first(of(64, true)), 650);
        assert_eq!(first(of(2, true)), 278);
        assert_eq!(first(of(8, true)), 314);
        assert_eq!(first(of(64, false)), 776);
        let usual = Use::Communicator(Communicator::default());
        let four = after(&[&[Use::Kernel, Use::Stream][..], &[usual; 4]].concat());
        assert!(four.abs_diff(1_816) <= 2, "{four}");
    }

    #[test]
    fn what_is_destroyed_returns() {
        let usual = Use::Communicator(Communicator::default());
        let held = LibraryMemory::default().with(Use::Kernel).with(usual);
        let more = held.with(usual).with(Use::LargeMessages).with(Use::Graph(9_000));
        assert!(more.bytes() > held.bytes() + LARGE_MESSAGES);
        let less = more.without(Use::Graph(9_000)).without(Use::LargeMessages).without(usual);
        assert_eq!(less, held);
    }
}
