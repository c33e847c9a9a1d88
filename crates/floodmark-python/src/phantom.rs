//! The library of the phantom engine, which the extension module contains, and the machine that it simulates.

use std::sync::Arc;

use floodmark_phantom_control::{self as control, PhantomLibrary as Library};
use floodmark_probe::with_phantom_slots_free;
use floodmark_profiles::{LibraryVersions, PhantomMachine as Machine, ValueAt, ValueAtError};
use floodmark_trace::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{from_gpu, from_phantom};

const IMAGE: &[u8] = include_bytes!(env!("FLOODMARK_PHANTOM"));

/// The bytes of the library, for compilers that link against the driver.
#[pyfunction]
pub(crate) fn phantom_image(py: Python<'_>) -> Bound<'_, PyBytes> {
    PyBytes::new(py, IMAGE)
}

/// A machine with simulated GPUs.
#[pyclass(frozen, eq, module = "floodmark._core")]
#[derive(Clone, PartialEq)]
pub(crate) struct PhantomMachine(pub(crate) Machine);

#[pymethods]
impl PhantomMachine {
    /// Finds the profile of a GPU by its name, or reads it from a TOML file.
    #[new]
    #[pyo3(signature = (gpu, *, memory = None, gpus = 1, ranks = None, answers = Vec::new()))]
    #[expect(clippy::needless_pass_by_value, reason = "extracted from a Python list")]
    fn new(
        gpu: &str,
        memory: Option<u64>,
        gpus: u32,
        ranks: Option<(u32, u32)>,
        answers: Vec<String>,
    ) -> PyResult<Self> {
        let answers = answers.iter().map(|answer| answer.parse()).collect::<Result<_, _>>();
        let answers = answers.map_err(|error: ValueAtError| from_phantom(&error))?;
        let machine = Machine::new(gpu, memory.map(Bytes), gpus);
        let machine = machine.map_err(|error| from_gpu(&error))?;
        Ok(Self(Machine { ranks, answers, ..machine }))
    }

    /// The machine of a parent process.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        let machine = serde_json::from_str(text);
        machine.map(Self).map_err(|error| from_phantom(&error))
    }

    /// The same machine for another rank of its world.
    fn as_rank(&self, rank: u32) -> Self {
        Self(self.0.as_rank(rank))
    }

    /// The machine for a child process.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(|error| from_phantom(&error))
    }

    #[getter]
    fn gpu(&self) -> &str {
        &self.0.gpu
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.profile.name
    }

    #[getter]
    fn is_checked(&self) -> bool {
        self.0.profile.checked
    }

    #[getter]
    fn gpus(&self) -> u32 {
        self.0.gpus
    }

    #[getter]
    fn rank(&self) -> Option<u32> {
        self.0.ranks.map(|(rank, _)| rank)
    }

    #[getter]
    fn world(&self) -> Option<u32> {
        self.0.ranks.map(|(_, world)| world)
    }

    #[getter]
    fn answers(&self) -> Vec<(&str, u32, f64)> {
        let answers = self.0.answers.iter();
        answers.map(|ValueAt { file, line, value }| (file.as_str(), *line, *value)).collect()
    }

    #[getter]
    fn capability(&self) -> PyResult<(i32, i32)> {
        self.0.profile.compute_capability().map_err(|error| from_gpu(&error))
    }

    #[getter]
    fn memory(&self) -> u64 {
        self.0.profile.memory
    }

    #[getter]
    fn context(&self) -> u64 {
        self.0.profile.context
    }

    #[getter]
    fn multiprocessors(&self) -> u32 {
        self.0.profile.multiprocessors
    }

    #[getter]
    fn warp_size(&self) -> u32 {
        self.0.profile.warp_size
    }

    #[getter]
    fn threads_per_multiprocessor(&self) -> u32 {
        self.0.profile.threads_per_multiprocessor
    }

    #[getter]
    fn registers_per_multiprocessor(&self) -> u32 {
        self.0.profile.registers_per_multiprocessor
    }

    #[getter]
    fn shared_per_block(&self) -> u64 {
        self.0.profile.shared_per_block
    }

    #[getter]
    fn shared_per_block_optin(&self) -> u64 {
        self.0.profile.shared_per_block_optin
    }

    #[getter]
    fn shared_per_multiprocessor(&self) -> u64 {
        self.0.profile.shared_per_multiprocessor
    }

    #[getter]
    fn l2(&self) -> u64 {
        self.0.profile.l2
    }
}

/// How certain the value of a byte is, the least certain first. The numbers are those of the phantom.
#[pyclass(
    frozen,
    eq,
    ord,
    hash,
    from_py_object,
    rename_all = "SCREAMING_SNAKE_CASE",
    module = "floodmark._core"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Certainty {
    Nothing = 0,
    Assumed = 1,
    Sampled = 2,
    Random = 3,
    Known = 4,
}

/// What a thread reads if no value is known. The numbers are those of the phantom.
#[pyclass(frozen, from_py_object, rename_all = "SCREAMING_SNAKE_CASE", module = "floodmark._core")]
#[derive(Clone, Copy)]
pub(crate) enum AnswerKind {
    Zero = 0,
    Number = 1,
    TruthValues = 2,
}

/// A call that the phantom does not support, and the number of such calls.
#[pyclass(frozen, get_all, module = "floodmark._core")]
pub(crate) struct UnsupportedCall {
    library: String,
    name: String,
    count: u64,
}

/// The phantom's library in this process. It stays until the process ends.
#[pyclass(frozen, module = "floodmark._core")]
pub(crate) struct PhantomLibrary {
    library: Arc<Library>,
    context: u64,
}

type DeviceBytes = (usize, u64, u64, u64, Vec<(String, u64)>);
#[pymethods]
impl PhantomLibrary {
    /// Loads the library and starts the machine. The program sees it after `claim` or `take_over`. With `started`,
    /// replaces a running machine on which nothing was allocated yet.
    #[staticmethod]
    #[pyo3(signature = (machine, *, cuda, cudnn, nccl, started = None))]
    fn start(
        machine: &PhantomMachine,
        cuda: i32,
        cudnn: String,
        nccl: i32,
        started: Option<&Self>,
    ) -> PyResult<Self> {
        let libraries = LibraryVersions { cuda, cudnn, nccl };
        let settings = machine.0.settings(&libraries).map_err(|error| from_gpu(&error))?;
        let library = match started {
            Some(Self { library, .. }) => library.restart(&settings).map(|()| library.clone()),
            None => Library::start(IMAGE, &settings).map(Arc::new),
        };
        let library = library.map_err(|error| from_phantom(&error))?;
        Ok(Self { library, context: settings.context })
    }

    /// Makes its symbols visible to libraries that are loaded later, under the names of CUDA's libraries.
    fn claim(&self) -> PyResult<()> {
        self.library.claim().map_err(|error| from_phantom(&error))
    }

    /// Replaces CUDA in libraries that are loaded already, also while a recording runs.
    fn take_over(&self, py: Python<'_>) -> bool {
        py.detach(|| with_phantom_slots_free(|| self.library.take_over())).unwrap_or(false)
    }

    /// Undoes `take_over`.
    fn restore(&self, py: Python<'_>) {
        py.detach(|| with_phantom_slots_free(|| self.library.restore()));
    }

    /// Calls that it does not support.
    fn unsupported(&self) -> Vec<UnsupportedCall> {
        let of = |control::UnsupportedCall { library, name, count }| UnsupportedCall {
            library,
            name,
            count,
        };
        self.library.account().unsupported.into_iter().map(of).collect()
    }

    /// The bytes of each GPU: capacity, CUDA context, the peak of the driver's, and what CUDA's libraries held then.
    fn devices(&self) -> Vec<DeviceBytes> {
        let (own, all) = (self.context, self.library.account().devices.into_iter());
        all.map(|d| (d.index, d.capacity + own, own, d.peak, d.libraries_at_peak)).collect()
    }

    /// How certain the value of these bytes is; the least certain one.
    fn certainty(&self, addr: u64, length: u64) -> Certainty {
        use Certainty::{Assumed, Known, Nothing, Random, Sampled};
        [Nothing, Assumed, Sampled, Random, Known][self.library.certainty(addr, length) as usize]
    }

    /// Whether all of these bytes have a value.
    fn has_value(&self, addr: u64, length: u64) -> bool {
        self.library.certainty(addr, length) != control::Certainty::Nothing
    }

    /// Sets how certain the value of these bytes is from now on.
    fn set_certainty(&self, addr: u64, length: u64, certainty: Certainty) {
        let certainty = control::Certainty::from_number(certainty as i32);
        self.library.set_certainty(addr, length, certainty);
    }

    /// Sets what this thread reads from now on where no value is known.
    fn set_answer(&self, kind: AnswerKind, value: i64) {
        self.library.set_answer(control::AnswerKind::from_number(kind as i32), value);
    }

    /// Sets the number of ranks of the communicators with this color; 0 removes it.
    fn set_group_size(&self, color: i32, ranks: u64) {
        self.library.set_group_size(color, ranks);
    }
}
