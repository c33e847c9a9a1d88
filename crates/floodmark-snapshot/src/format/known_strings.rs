//! The keys and values that torch writes and the reader knows, each with a number.

/// The number of a string of the file. Those of [`KNOWN`] have their index there.
pub(crate) type StringId = u32;

macro_rules! known {
    ($($name:ident = $text:literal,)*) => {
        $(pub(crate) const $name: StringId = index_of($text);)*

        pub(crate) const KNOWN: &[&str] = &[$($text,)*];
    };
}

known! {
    EMPTY = "",
    // Keys of dicts: their numbers are below `KEYS`.
    ACTION = "action",
    ADDR = "addr",
    SIZE = "size",
    STREAM = "stream",
    TIME_US = "time_us",
    COMPILE_CONTEXT = "compile_context",
    USER_METADATA = "user_metadata",
    INTERNAL_METADATA = "internal_metadata",
    POOL_ID = "pool_id",
    DEVICE_FREE = "device_free",
    FRAMES = "frames",
    FORWARD_FRAMES = "forward_frames",
    NAME = "name",
    FILENAME = "filename",
    LINE = "line",
    ADDRESS = "address",
    REQUESTED_SIZE = "requested_size",
    STATE = "state",
    HISTORY = "history",
    REAL_SIZE = "real_size",
    DEVICE = "device",
    TOTAL_SIZE = "total_size",
    SEGMENT_POOL_ID = "segment_pool_id",
    BLOCKS = "blocks",
    STAGE = "stage",
    SEGMENTS = "segments",
    DEVICE_TRACES = "device_traces",
    ALLOCATOR_SETTINGS = "allocator_settings",
    EXTERNAL_ANNOTATIONS = "external_annotations",
    HOST_SEGMENTS = "host_segments",
    HOST_TRACES = "host_traces",
    CUDA_ALLOC_CONF = "PYTORCH_CUDA_ALLOC_CONF",
    ALLOC_CONF = "PYTORCH_ALLOC_CONF",
    STREAM_REUSE = "graph_capture_record_stream_reuse",
    MAX_CACHED_SIZE = "max_cached_size",
    MAX_SPLIT_SIZE = "max_split_size",
    // Values.
    ALLOC = "alloc",
    FREE_REQUESTED = "free_requested",
    FREE_COMPLETED = "free_completed",
    SEGMENT_ALLOC = "segment_alloc",
    SEGMENT_FREE = "segment_free",
    SEGMENT_MAP = "segment_map",
    SEGMENT_UNMAP = "segment_unmap",
    OOM = "oom",
    ANNOTATE = "annotate",
    SNAPSHOT = "snapshot",
    ACTIVE_ALLOCATED = "active_allocated",
    ACTIVE_PENDING_FREE = "active_pending_free",
    START = "START",
    NOT_COMPILED = "N/A",
}

/// The index of a string in [`KNOWN`], for the compiler.
const fn index_of(text: &str) -> StringId {
    let mut at = 0;
    while !is_same(KNOWN[at].as_bytes(), text.as_bytes()) {
        at += 1;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the list is short")]
    let id = at as StringId;
    id
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Keys of dicts have numbers below this.
pub(crate) const KEYS: usize = ALLOC as usize;
const _: () = assert!(KEYS <= 64, "a set of keys is 64 bits");
