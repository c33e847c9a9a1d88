//! What CUDA's libraries hold on a device, by the operators that the program called.
//!
//! torch creates a handle of a library for each thread that needs one. A program of fake tensors has two such threads: its
//! own, and that of autograd.

use floodmark_cuda_model::library_memory::{Library, LibraryMemory, Use};
use floodmark_trace::Device;
use hashbrown::{HashMap, HashSet};

/// Which library an operator calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Called {
    Cublas,
    Cudnn,
    Cusolver,
    Cufft,
}

impl Called {
    /// By the name of the operator, without its overload.
    pub(crate) fn by(op: &str) -> Option<Self> {
        let name = op.strip_prefix("aten::")?;
        let base = name.split_once('.').map_or(name, |(base, _)| base);
        let is_one_of = |starts: &[&str]| starts.iter().any(|start| base.starts_with(start));
        match base {
            "mm"
            | "addmm"
            | "bmm"
            | "baddbmm"
            | "mv"
            | "addmv"
            | "dot"
            | "vdot"
            | "linear"
            | "_int_mm"
            | "_scaled_mm"
            | "_addmm_activation"
            | "linalg_solve_triangular"
            | "triangular_solve"
            | "lu_solve" => Some(Self::Cublas),
            "native_batch_norm"
            | "_native_batch_norm_legit"
            | "convolution"
            | "convolution_backward" => Some(Self::Cudnn),
            "linalg_vector_norm" | "linalg_cross" | "linalg_diagonal" => None,
            _ if is_one_of(&["_fft_"]) => Some(Self::Cufft),
            _ if is_one_of(&["cudnn_", "_cudnn_", "_scaled_dot_product_cudnn"]) => {
                Some(Self::Cudnn)
            }
            _ if is_one_of(&[
                "linalg_",
                "_linalg_",
                "cholesky",
                "geqrf",
                "ormqr",
                "_lu_with_info",
            ]) =>
            {
                Some(Self::Cusolver)
            }
            _ => None,
        }
    }

    fn creates(self) -> Use {
        match self {
            Self::Cublas => Use::CublasHandle,
            Self::Cudnn => Use::CudnnHandle,
            Self::Cusolver => Use::CusolverHandle,
            Self::Cufft => Use::FftPlan,
        }
    }
}

/// What they hold on every device.
#[derive(Debug)]
pub(crate) struct Libraries {
    /// What they hold on a device that was not used.
    unused: LibraryMemory,
    held: HashMap<Device, LibraryMemory>,
    /// The handles that exist: on which device, and whether autograd's thread has it.
    handles: HashSet<(Device, Called, bool)>,
}

impl Libraries {
    /// On GPUs of that compute capability: 90 for 9.0.
    pub(crate) fn new(capability: u32) -> Self {
        let unused = LibraryMemory::new(capability / 10, false);
        Self { unused, held: HashMap::new(), handles: HashSet::new() }
    }

    /// An operator is called. Returns whether a library holds more now.
    pub(crate) fn note_call(&mut self, called: Called, device: Device, is_backward: bool) -> bool {
        let is_new = self.handles.insert((device, called, is_backward));
        if is_new {
            self.note(device, called.creates());
        }
        is_new
    }

    /// The first block of a device is allocated: a kernel will write it.
    pub(crate) fn note_block(&mut self, device: Device) {
        self.note(device, Use::Kernel);
    }

    fn note(&mut self, device: Device, what: Use) {
        let held = self.held.entry(device).or_insert(self.unused);
        *held = held.with(what);
    }

    /// What all of them hold on a device.
    pub(crate) fn bytes(&self, device: Device) -> u64 {
        self.held.get(&device).map_or(0, LibraryMemory::bytes)
    }

    /// The same by library; those that hold nothing are left out.
    pub(crate) fn by_name(&self, device: Device) -> Vec<(&'static str, u64)> {
        let held = self.held.get(&device).copied().unwrap_or(self.unused);
        let all = Library::ALL.iter().map(|&library| (library.name(), held.bytes_of(library)));
        all.filter(|&(_, bytes)| bytes > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: Device = Device::cuda(0);

    #[test]
    fn each_thread_has_its_handle() {
        let mut libraries = Libraries::new(90);
        libraries.note_block(GPU);
        let called = Called::by("aten::addmm").expect("it multiplies");
        assert!(
            libraries.note_call(called, GPU, false) && !libraries.note_call(called, GPU, false)
        );
        assert!(libraries.note_call(called, GPU, true));
        let names = libraries.by_name(GPU);
        assert_eq!(names, [("kernels", 92 << 20), ("cuBLAS", 130 << 20)]);
        assert_eq!(libraries.bytes(GPU), 222 << 20);
        assert_eq!(libraries.bytes(Device::cuda(1)), 0);
    }

    #[test]
    fn an_operator_calls_its_library() {
        let of = |op| Called::by(op);
        assert_eq!(of("aten::_fft_r2c"), Some(Called::Cufft));
        assert_eq!(of("aten::linalg_cholesky_ex"), Some(Called::Cusolver));
        assert_eq!(of("aten::linalg_solve_triangular"), Some(Called::Cublas));
        assert_eq!(of("aten::linalg_vector_norm"), None);
        assert_eq!(of("aten::_cudnn_rnn"), Some(Called::Cudnn));
        assert_eq!(of("aten::add.Tensor"), None);
        assert_eq!(of("mylib::mm"), None);
    }
}
