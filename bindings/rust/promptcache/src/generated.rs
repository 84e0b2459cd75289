// Written by generate.py from the description of the headers. Do not edit.

use crate::call::{array_of, borrowed, chars, data_of, digest, pointer_of};
use crate::call::{set_chars, text_of, Keep};
use crate::{sys, Memo, Result, Salt, Schema};

/// A code of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// done
    Ok,
    /// not in the cache
    Miss,
    /// not finished, call again
    Again,
    /// nothing left to do
    End,
    /// there already
    Exists,
    /// invalid argument
    Invalid,
    /// out of memory
    Nomem,
    /// input or output failed
    Io,
    /// damaged or malformed file
    Format,
    /// not supported
    Unsupported,
    /// not found
    NotFound,
    /// fault in a schema or prompt
    Pml,
    /// limit exceeded
    Limit,
    /// cancelled
    Cancelled,
    /// not possible in this state
    State,
    /// objects do not belong together
    Mismatch,
    /// internal error
    Internal,
    /// handle is unusable, only free it
    Dead,
    /// A code that this crate does not know: of a later library.
    Other(i32),
}

impl From<i32> for Status {
    fn from(code: i32) -> Self {
        match code {
            0 => Status::Ok,
            1 => Status::Miss,
            2 => Status::Again,
            3 => Status::End,
            4 => Status::Exists,
            -1 => Status::Invalid,
            -2 => Status::Nomem,
            -3 => Status::Io,
            -4 => Status::Format,
            -5 => Status::Unsupported,
            -6 => Status::NotFound,
            -7 => Status::Pml,
            -8 => Status::Limit,
            -9 => Status::Cancelled,
            -10 => Status::State,
            -11 => Status::Mismatch,
            -12 => Status::Internal,
            -900 => Status::Dead,
            code => Status::Other(code),
        }
    }
}

impl From<Status> for i32 {
    fn from(code: Status) -> i32 {
        match code {
            Status::Ok => 0,
            Status::Miss => 1,
            Status::Again => 2,
            Status::End => 3,
            Status::Exists => 4,
            Status::Invalid => -1,
            Status::Nomem => -2,
            Status::Io => -3,
            Status::Format => -4,
            Status::Unsupported => -5,
            Status::NotFound => -6,
            Status::Pml => -7,
            Status::Limit => -8,
            Status::Cancelled => -9,
            Status::State => -10,
            Status::Mismatch => -11,
            Status::Internal => -12,
            Status::Dead => -900,
            Status::Other(code) => code,
        }
    }
}

impl Default for Status {
    fn default() -> Self {
        Status::from(0)
    }
}

/// Levels of a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogLevel {
    /// `PC_LOG_ERROR`
    Error,
    /// `PC_LOG_WARN`
    Warn,
    /// `PC_LOG_INFO`
    Info,
    /// `PC_LOG_DEBUG`
    Debug,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for LogLevel {
    fn from(code: u32) -> Self {
        match code {
            1 => LogLevel::Error,
            2 => LogLevel::Warn,
            3 => LogLevel::Info,
            4 => LogLevel::Debug,
            code => LogLevel::Other(code),
        }
    }
}

impl From<LogLevel> for u32 {
    fn from(code: LogLevel) -> u32 {
        match code {
            LogLevel::Error => 1,
            LogLevel::Warn => 2,
            LogLevel::Info => 3,
            LogLevel::Debug => 4,
            LogLevel::Other(code) => code,
        }
    }
}

/// Number formats. F16 is for K and V only, I16 for `compute` only. I8 of K and V: int8 times a
/// scale; K has a scale per channel of each page, V one per token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dtype {
    /// `PC_DTYPE_DEFAULT`
    Default,
    /// `PC_DTYPE_F32`
    F32,
    /// `PC_DTYPE_BF16`
    BF16,
    /// `PC_DTYPE_F16`
    F16,
    /// `PC_DTYPE_I8`
    I8,
    /// `PC_DTYPE_I16`
    I16,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for Dtype {
    fn from(code: u32) -> Self {
        match code {
            0 => Dtype::Default,
            1 => Dtype::F32,
            2 => Dtype::BF16,
            3 => Dtype::F16,
            4 => Dtype::I8,
            5 => Dtype::I16,
            code => Dtype::Other(code),
        }
    }
}

impl From<Dtype> for u32 {
    fn from(code: Dtype) -> u32 {
        match code {
            Dtype::Default => 0,
            Dtype::F32 => 1,
            Dtype::BF16 => 2,
            Dtype::F16 => 3,
            Dtype::I8 => 4,
            Dtype::I16 => 5,
            Dtype::Other(code) => code,
        }
    }
}

impl Default for Dtype {
    fn default() -> Self {
        Dtype::from(0)
    }
}

/// How a model knows the positions of its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PositionScheme {
    /// `PC_POSITION_NONE`
    None,
    /// `PC_POSITION_ROPE`
    Rope,
    /// `PC_POSITION_ALIBI`
    Alibi,
    /// `PC_POSITION_LEARNED`
    Learned,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for PositionScheme {
    fn from(code: u32) -> Self {
        match code {
            0 => PositionScheme::None,
            1 => PositionScheme::Rope,
            2 => PositionScheme::Alibi,
            3 => PositionScheme::Learned,
            code => PositionScheme::Other(code),
        }
    }
}

impl From<PositionScheme> for u32 {
    fn from(code: PositionScheme) -> u32 {
        match code {
            PositionScheme::None => 0,
            PositionScheme::Rope => 1,
            PositionScheme::Alibi => 2,
            PositionScheme::Learned => 3,
            PositionScheme::Other(code) => code,
        }
    }
}

impl Default for PositionScheme {
    fn default() -> Self {
        PositionScheme::from(0)
    }
}

/// Where segments are stored, nearest first. RAM holds segments ready for use. The others hold
/// records (doc/format.md): COMPRESSED in memory, DISK as files in a folder, REMOTE as values of a
/// Redis or Valkey server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tier {
    /// `PC_TIER_NONE`
    None,
    /// `PC_TIER_DEVICE`
    Device,
    /// `PC_TIER_RAM`
    Ram,
    /// `PC_TIER_COMPRESSED`
    Compressed,
    /// `PC_TIER_DISK`
    Disk,
    /// `PC_TIER_REMOTE`
    Remote,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for Tier {
    fn from(code: u32) -> Self {
        match code {
            0 => Tier::None,
            1 => Tier::Device,
            2 => Tier::Ram,
            3 => Tier::Compressed,
            4 => Tier::Disk,
            5 => Tier::Remote,
            code => Tier::Other(code),
        }
    }
}

impl From<Tier> for u32 {
    fn from(code: Tier) -> u32 {
        match code {
            Tier::None => 0,
            Tier::Device => 1,
            Tier::Ram => 2,
            Tier::Compressed => 3,
            Tier::Disk => 4,
            Tier::Remote => 5,
            Tier::Other(code) => code,
        }
    }
}

impl Default for Tier {
    fn default() -> Self {
        Tier::from(0)
    }
}

/// How states are written in a record. RAW and ZSTD (byte planes, compressed) lose nothing. I8 and
/// I4 (K with a scale per channel of each page, V with one per token) do: states that were read from
/// them are [`PC_APPROXIMATE`](crate::Exactness::Approximate).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Codec {
    /// `PC_CODEC_DEFAULT`
    Default,
    /// `PC_CODEC_RAW`
    Raw,
    /// `PC_CODEC_ZSTD`
    Zstd,
    /// `PC_CODEC_I8`
    I8,
    /// `PC_CODEC_I4`
    I4,
    /// first id for codecs of the application
    Application,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for Codec {
    fn from(code: u32) -> Self {
        match code {
            0 => Codec::Default,
            1 => Codec::Raw,
            2 => Codec::Zstd,
            3 => Codec::I8,
            4 => Codec::I4,
            256 => Codec::Application,
            code => Codec::Other(code),
        }
    }
}

impl From<Codec> for u32 {
    fn from(code: Codec) -> u32 {
        match code {
            Codec::Default => 0,
            Codec::Raw => 1,
            Codec::Zstd => 2,
            Codec::I8 => 3,
            Codec::I4 => 4,
            Codec::Application => 256,
            Codec::Other(code) => code,
        }
    }
}

impl Default for Codec {
    fn default() -> Self {
        Codec::from(0)
    }
}

/// The tokens that a module sees while it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// itself (Prompt Cache, section 3.3)
    Independent,
    /// itself and the schema's leading anonymous text (ours)
    Sink,
    /// the default layout in one pass, one more per union member (upstream)
    Joint,
    /// Everything before it in this prompt: reused behind equal prefixes (ours).
    Exact,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for Encoding {
    fn from(code: u32) -> Self {
        match code {
            0 => Encoding::Independent,
            1 => Encoding::Sink,
            2 => Encoding::Joint,
            3 => Encoding::Exact,
            code => Encoding::Other(code),
        }
    }
}

impl From<Encoding> for u32 {
    fn from(code: Encoding) -> u32 {
        match code {
            Encoding::Independent => 0,
            Encoding::Sink => 1,
            Encoding::Joint => 2,
            Encoding::Exact => 3,
            Encoding::Other(code) => code,
        }
    }
}

impl Default for Encoding {
    fn default() -> Self {
        Encoding::from(0)
    }
}

/// Which keys of attached segments a new token may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Visibility {
    /// those at positions up to its own
    ByPosition,
    /// all, as the published code has it
    All,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for Visibility {
    fn from(code: u32) -> Self {
        match code {
            0 => Visibility::ByPosition,
            1 => Visibility::All,
            code => Visibility::Other(code),
        }
    }
}

impl From<Visibility> for u32 {
    fn from(code: Visibility) -> u32 {
        match code {
            Visibility::ByPosition => 0,
            Visibility::All => 1,
            Visibility::Other(code) => code,
        }
    }
}

impl Default for Visibility {
    fn default() -> Self {
        Visibility::from(0)
    }
}

/// How much of what was reused is computed again: the repair level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Repair {
    /// uses joint states of a scaffold that the prompt imports whole
    Scaffold,
    /// single states only
    None,
    /// recomputes the first `repair_tokens` tokens of each module
    First,
    /// recomputes the `repair_percent` of tokens that deviate most
    Top,
    /// recomputes everything: bit-equal to no reuse
    Full,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for Repair {
    fn from(code: u32) -> Self {
        match code {
            0 => Repair::Scaffold,
            1 => Repair::None,
            2 => Repair::First,
            3 => Repair::Top,
            4 => Repair::Full,
            code => Repair::Other(code),
        }
    }
}

impl From<Repair> for u32 {
    fn from(code: Repair) -> u32 {
        match code {
            Repair::Scaffold => 0,
            Repair::None => 1,
            Repair::First => 2,
            Repair::Top => 3,
            Repair::Full => 4,
            Repair::Other(code) => code,
        }
    }
}

impl Default for Repair {
    fn default() -> Self {
        Repair::from(0)
    }
}

/// How the states of a request compare with those of a plain prefill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Exactness {
    /// equal
    Exact,
    /// approximate, but for the tokens that the repair level recomputed
    Repaired,
    /// modules that have not seen what stands before them, lossy codecs or I8,
    /// spans in another place, or another prompt's attention maps took part
    Approximate,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for Exactness {
    fn from(code: u32) -> Self {
        match code {
            1 => Exactness::Exact,
            2 => Exactness::Repaired,
            3 => Exactness::Approximate,
            code => Exactness::Other(code),
        }
    }
}

impl From<Exactness> for u32 {
    fn from(code: Exactness) -> u32 {
        match code {
            Exactness::Exact => 1,
            Exactness::Repaired => 2,
            Exactness::Approximate => 3,
            Exactness::Other(code) => code,
        }
    }
}

/// Why the first part that was not reused was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// everything was reused
    None,
    /// never encoded, or evicted since
    FirstUse,
    /// cache="false"
    Uncached,
    /// the caller asked for no reuse
    NotWanted,
    /// recomputed by the repair level
    Repair,
    /// EXACT: something before it differs
    Prefix,
    /// a tier below RAM has it, or may have it:
    ///
    /// computing promised to be, or was, faster than loading
    Slow,
    /// a tier below RAM has it, or may have it:
    ///
    /// loading took longer than its deadline
    Deadline,
    /// a tier below RAM has it, or may have it:
    ///
    /// wrong checksum, seal or frame
    Damaged,
    /// a tier below RAM has it, or may have it:
    ///
    /// of another model, format, version or salt than its name says
    Foreign,
    /// a tier below RAM has it, or may have it:
    ///
    /// reading failed
    Io,
    /// a tier below RAM has it, or may have it:
    ///
    /// the server does not answer (the cache tries again later)
    Unreachable,
    /// a tier below RAM has it, or may have it:
    ///
    /// its TTL has passed
    Expired,
    /// a tier below RAM has it, or may have it:
    ///
    /// its tenant's quota has no room for it
    Quota,
    /// a tier below RAM has it, or may have it:
    ///
    /// used too seldom to be written
    NotAdmitted,
    /// a memo has no maps for it:
    ///
    /// no record of this length, or the request has another RoPE regime
    Length,
    /// a memo has no maps for it:
    ///
    /// no record is similar enough
    Unlike,
    /// a memo has no maps for it:
    ///
    /// its bucket has no projector or no threshold yet
    Untrained,
    /// a memo has no maps for it:
    ///
    /// its bucket closed: reuse has lost more than it was tuned for
    Drift,
    /// a memo was not asked (see also `NOT_WANTED` and REPAIR):
    ///
    /// the prompt is made of a schema's parts or of segments
    Parts,
    /// a memo was not asked (see also `NOT_WANTED` and REPAIR):
    ///
    /// the cache has exact states of it, or of its beginning
    AtHand,
    /// a cache with [`PC_CACHE_OWN_KERNELS`](crate::CacheFlags::OWN_KERNELS):
    ///
    /// other kernels may have computed the stored states
    Kernels,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for Reason {
    fn from(code: u32) -> Self {
        match code {
            0 => Reason::None,
            1 => Reason::FirstUse,
            2 => Reason::Uncached,
            4 => Reason::NotWanted,
            5 => Reason::Repair,
            6 => Reason::Prefix,
            7 => Reason::Slow,
            8 => Reason::Deadline,
            9 => Reason::Damaged,
            10 => Reason::Foreign,
            11 => Reason::Io,
            12 => Reason::Unreachable,
            13 => Reason::Expired,
            14 => Reason::Quota,
            15 => Reason::NotAdmitted,
            16 => Reason::Length,
            17 => Reason::Unlike,
            18 => Reason::Untrained,
            19 => Reason::Drift,
            20 => Reason::Parts,
            21 => Reason::AtHand,
            22 => Reason::Kernels,
            code => Reason::Other(code),
        }
    }
}

impl From<Reason> for u32 {
    fn from(code: Reason) -> u32 {
        match code {
            Reason::None => 0,
            Reason::FirstUse => 1,
            Reason::Uncached => 2,
            Reason::NotWanted => 4,
            Reason::Repair => 5,
            Reason::Prefix => 6,
            Reason::Slow => 7,
            Reason::Deadline => 8,
            Reason::Damaged => 9,
            Reason::Foreign => 10,
            Reason::Io => 11,
            Reason::Unreachable => 12,
            Reason::Expired => 13,
            Reason::Quota => 14,
            Reason::NotAdmitted => 15,
            Reason::Length => 16,
            Reason::Unlike => 17,
            Reason::Untrained => 18,
            Reason::Drift => 19,
            Reason::Parts => 20,
            Reason::AtHand => 21,
            Reason::Kernels => 22,
            Reason::Other(code) => code,
        }
    }
}

impl Default for Reason {
    fn default() -> Self {
        Reason::from(0)
    }
}

/// Why a sample ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Finish {
    /// it has not
    None,
    /// `PC_FINISH_STOP_TOKEN`
    StopToken,
    /// `PC_FINISH_STOP_STRING`
    StopString,
    /// `max_tokens`, or the end of the model's context or of the RoPE regime
    Length,
    /// `on_text`, `on_token` or `on_logits` wanted it
    Callback,
    /// [`pc_sequence_error`](crate::sys::pc_sequence_error) says which
    Error,
    /// [`PC_ERR_CANCELLED`](crate::Status::Cancelled): `cancelled`, [`pc_sequence_cancel`](crate::sys::pc_sequence_cancel) or a deadline
    Cancelled,
    /// the answer matches its grammar, which lets nothing more come
    Grammar,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for Finish {
    fn from(code: u32) -> Self {
        match code {
            0 => Finish::None,
            1 => Finish::StopToken,
            2 => Finish::StopString,
            3 => Finish::Length,
            4 => Finish::Callback,
            5 => Finish::Error,
            6 => Finish::Cancelled,
            7 => Finish::Grammar,
            code => Finish::Other(code),
        }
    }
}

impl From<Finish> for u32 {
    fn from(code: Finish) -> u32 {
        match code {
            Finish::None => 0,
            Finish::StopToken => 1,
            Finish::StopString => 2,
            Finish::Length => 3,
            Finish::Callback => 4,
            Finish::Error => 5,
            Finish::Cancelled => 6,
            Finish::Grammar => 7,
            Finish::Other(code) => code,
        }
    }
}

impl Default for Finish {
    fn default() -> Self {
        Finish::from(0)
    }
}

/// What it is: [`pc_model_file_info.kind`](crate::ModelFileInfo).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelFileKind {
    /// `PC_MODEL_FILE_GGUF`
    Gguf,
    /// `PC_MODEL_FILE_FOLDER`
    Folder,
    /// `PC_MODEL_FILE_LLAMA2C`
    Llama2c,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for ModelFileKind {
    fn from(code: u32) -> Self {
        match code {
            1 => ModelFileKind::Gguf,
            2 => ModelFileKind::Folder,
            3 => ModelFileKind::Llama2c,
            code => ModelFileKind::Other(code),
        }
    }
}

impl From<ModelFileKind> for u32 {
    fn from(code: ModelFileKind) -> u32 {
        match code {
            ModelFileKind::Gguf => 1,
            ModelFileKind::Folder => 2,
            ModelFileKind::Llama2c => 3,
            ModelFileKind::Other(code) => code,
        }
    }
}

/// Where the costs come from: [`pc_costs.source`](crate::Costs).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CostSource {
    /// `PC_COSTS_BUILT_IN`
    BuiltIn,
    /// `PC_COSTS_FROM_FILE`
    FromFile,
    /// `PC_COSTS_MEASURED`
    Measured,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for CostSource {
    fn from(code: u32) -> Self {
        match code {
            0 => CostSource::BuiltIn,
            1 => CostSource::FromFile,
            2 => CostSource::Measured,
            code => CostSource::Other(code),
        }
    }
}

impl From<CostSource> for u32 {
    fn from(code: CostSource) -> u32 {
        match code {
            CostSource::BuiltIn => 0,
            CostSource::FromFile => 1,
            CostSource::Measured => 2,
            CostSource::Other(code) => code,
        }
    }
}

impl Default for CostSource {
    fn default() -> Self {
        CostSource::from(0)
    }
}

/// Parts of the library that need large outside libraries are shared objects beside it. Each is
/// opened when it is first needed. Without one, the library does what it does when it was built
/// without that part: it computes linear layers itself (onednn), searches memos by its own scan
/// (faiss), refuses caches on servers (remote).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PluginState {
    /// from the file `path`
    Loaded,
    /// linked into the library
    Inside,
    /// the library was built for it, but it cannot be used: see `reason`
    Missing,
    /// `PC_PLUGIN_NOT_BUILT`
    NotBuilt,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for PluginState {
    fn from(code: u32) -> Self {
        match code {
            1 => PluginState::Loaded,
            2 => PluginState::Inside,
            3 => PluginState::Missing,
            4 => PluginState::NotBuilt,
            code => PluginState::Other(code),
        }
    }
}

impl From<PluginState> for u32 {
    fn from(code: PluginState) -> u32 {
        match code {
            PluginState::Loaded => 1,
            PluginState::Inside => 2,
            PluginState::Missing => 3,
            PluginState::NotBuilt => 4,
            PluginState::Other(code) => code,
        }
    }
}

/// The order of K, and of V, in memory of the caller: of one page of a pool, or of the tokens of
/// [`pc_pages_args`](crate::sys::pc_pages_args). Dimensions are always neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KvOrder {
    /// \[token\]\[head\]\[dim\]
    NHD,
    /// \[head\]\[token\]\[dim\]
    HND,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for KvOrder {
    fn from(code: u32) -> Self {
        match code {
            0 => KvOrder::NHD,
            1 => KvOrder::HND,
            code => KvOrder::Other(code),
        }
    }
}

impl From<KvOrder> for u32 {
    fn from(code: KvOrder) -> u32 {
        match code {
            KvOrder::NHD => 0,
            KvOrder::HND => 1,
            KvOrder::Other(code) => code,
        }
    }
}

impl Default for KvOrder {
    fn default() -> Self {
        KvOrder::from(0)
    }
}

/// Events of a cache: [`pc_event.kind`](crate::Event).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// a tier stored a segment
    Store,
    /// a tier served it
    Hit,
    /// a tier evicted it to make room
    Evict,
    /// cleared, expired, or removed by hand
    Remove,
    /// a tier has it but could not give it: reason
    LoadFailed,
    /// a tier could not store it: reason
    StoreFailed,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for EventKind {
    fn from(code: u32) -> Self {
        match code {
            1 => EventKind::Store,
            2 => EventKind::Hit,
            3 => EventKind::Evict,
            4 => EventKind::Remove,
            5 => EventKind::LoadFailed,
            6 => EventKind::StoreFailed,
            code => EventKind::Other(code),
        }
    }
}

impl From<EventKind> for u32 {
    fn from(code: EventKind) -> u32 {
        match code {
            EventKind::Store => 1,
            EventKind::Hit => 2,
            EventKind::Evict => 3,
            EventKind::Remove => 4,
            EventKind::LoadFailed => 5,
            EventKind::StoreFailed => 6,
            EventKind::Other(code) => code,
        }
    }
}

/// Who lays K and V out. The application's layouts are opaque: codecs RAW, ZSTD and the
/// application's take them, I8 and I4 do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// bytes of ops.`export_segment`
    Model,
    /// doc/format.md
    Pages,
    /// pages of K alone, with one head: the values are its last `v_dim` dimensions
    Latent,
    /// pages of what ops.`export_layer` gives
    ModelPages,
    /// the head of a saved sequence ([`pc_sequence_save`](crate::sys::pc_sequence_save))
    Sequence,
    /// first id for layouts of the application
    Application,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for Layout {
    fn from(code: u32) -> Self {
        match code {
            0 => Layout::Model,
            1 => Layout::Pages,
            2 => Layout::Latent,
            3 => Layout::ModelPages,
            4 => Layout::Sequence,
            256 => Layout::Application,
            code => Layout::Other(code),
        }
    }
}

impl From<Layout> for u32 {
    fn from(code: Layout) -> u32 {
        match code {
            Layout::Model => 0,
            Layout::Pages => 1,
            Layout::Latent => 2,
            Layout::ModelPages => 3,
            Layout::Sequence => 4,
            Layout::Application => 256,
            Layout::Other(code) => code,
        }
    }
}

impl Default for Layout {
    fn default() -> Self {
        Layout::from(0)
    }
}

/// How the hidden states of a prompt become one embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pooling {
    /// the model's own; else MEAN, of decoders LAST
    Default,
    /// `PC_POOL_MEAN`
    Mean,
    /// `PC_POOL_FIRST`
    First,
    /// of the token at the highest position
    Last,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for Pooling {
    fn from(code: u32) -> Self {
        match code {
            0 => Pooling::Default,
            1 => Pooling::Mean,
            2 => Pooling::First,
            3 => Pooling::Last,
            code => Pooling::Other(code),
        }
    }
}

impl From<Pooling> for u32 {
    fn from(code: Pooling) -> u32 {
        match code {
            Pooling::Default => 0,
            Pooling::Mean => 1,
            Pooling::First => 2,
            Pooling::Last => 3,
            Pooling::Other(code) => code,
        }
    }
}

impl Default for Pooling {
    fn default() -> Self {
        Pooling::from(0)
    }
}

/// weights of maps; U8: a scale per row
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MapFormat {
    /// `PC_MAP_F32`
    F32,
    /// `PC_MAP_F16`
    F16,
    /// `PC_MAP_U8`
    U8,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for MapFormat {
    fn from(code: u32) -> Self {
        match code {
            0 => MapFormat::F32,
            1 => MapFormat::F16,
            2 => MapFormat::U8,
            code => MapFormat::Other(code),
        }
    }
}

impl From<MapFormat> for u32 {
    fn from(code: MapFormat) -> u32 {
        match code {
            MapFormat::F32 => 0,
            MapFormat::F16 => 1,
            MapFormat::U8 => 2,
            MapFormat::Other(code) => code,
        }
    }
}

impl Default for MapFormat {
    fn default() -> Self {
        MapFormat::from(0)
    }
}

/// How the nearest record is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Index {
    /// SCAN for few records of a length; HNSW for many, if FAISS is there
    Auto,
    /// ours, exact
    Scan,
    /// FAISS, exact. This and the next two: [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported) without FAISS
    Flat,
    /// a graph: approximate
    Hnsw,
    /// lists by cluster: approximate
    Ivf,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for Index {
    fn from(code: u32) -> Self {
        match code {
            0 => Index::Auto,
            1 => Index::Scan,
            2 => Index::Flat,
            3 => Index::Hnsw,
            4 => Index::Ivf,
            code => Index::Other(code),
        }
    }
}

impl From<Index> for u32 {
    fn from(code: Index) -> u32 {
        match code {
            Index::Auto => 0,
            Index::Scan => 1,
            Index::Flat => 2,
            Index::Hnsw => 3,
            Index::Ivf => 4,
            Index::Other(code) => code,
        }
    }
}

impl Default for Index {
    fn default() -> Self {
        Index::from(0)
    }
}

/// What is measured as the loss of a reuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// 1 - cosine of the embeddings with and without reuse
    Cosine,
    /// share of inputs whose most likely class or next token changes
    Changed,
    /// divergence over classes or next tokens, in nats
    Kl,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for Loss {
    fn from(code: u32) -> Self {
        match code {
            0 => Loss::Cosine,
            1 => Loss::Changed,
            2 => Loss::Kl,
            code => Loss::Other(code),
        }
    }
}

impl From<Loss> for u32 {
    fn from(code: Loss) -> u32 {
        match code {
            Loss::Cosine => 0,
            Loss::Changed => 1,
            Loss::Kl => 2,
            Loss::Other(code) => code,
        }
    }
}

impl Default for Loss {
    fn default() -> Self {
        Loss::from(0)
    }
}

/// What a prompt reused: [`pc_memo_result.reuse`](crate::MemoResult).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reuse {
    /// `PC_REUSE_NONE`
    None,
    /// `PC_REUSE_MAPS`
    Maps,
    /// of the same prompt: nothing was computed
    Output,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for Reuse {
    fn from(code: u32) -> Self {
        match code {
            0 => Reuse::None,
            1 => Reuse::Maps,
            2 => Reuse::Output,
            code => Reuse::Other(code),
        }
    }
}

impl From<Reuse> for u32 {
    fn from(code: Reuse) -> u32 {
        match code {
            Reuse::None => 0,
            Reuse::Maps => 1,
            Reuse::Output => 2,
            Reuse::Other(code) => code,
        }
    }
}

impl Default for Reuse {
    fn default() -> Self {
        Reuse::from(0)
    }
}

/// Elements of a schema: [`pc_item.kind`](crate::sys::pc_item).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ItemKind {
    /// `PC_ITEM_MODULE`
    Module,
    /// `PC_ITEM_UNION`
    Union,
    /// `PC_ITEM_TEXT`
    Text,
    /// `PC_ITEM_PARAMETER`
    Parameter,
    /// `PC_ITEM_SLOT`
    Slot,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for ItemKind {
    fn from(code: u32) -> Self {
        match code {
            1 => ItemKind::Module,
            2 => ItemKind::Union,
            3 => ItemKind::Text,
            4 => ItemKind::Parameter,
            5 => ItemKind::Slot,
            code => ItemKind::Other(code),
        }
    }
}

impl From<ItemKind> for u32 {
    fn from(code: ItemKind) -> u32 {
        match code {
            ItemKind::Module => 1,
            ItemKind::Union => 2,
            ItemKind::Text => 3,
            ItemKind::Parameter => 4,
            ItemKind::Slot => 5,
            ItemKind::Other(code) => code,
        }
    }
}

/// Where a part comes from: [`pc_part.kind`](crate::sys::pc_part).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PartKind {
    /// text of the schema, from the cache
    Cached,
    /// Prompt Cache, section 3.2.2
    Argument,
    /// new text
    Text,
    /// text of the schema under cache="false", computed by every request
    Uncached,
    /// A code that this crate does not know: of a later library.
    Other(u32),
}

impl From<u32> for PartKind {
    fn from(code: u32) -> Self {
        match code {
            1 => PartKind::Cached,
            2 => PartKind::Argument,
            3 => PartKind::Text,
            4 => PartKind::Uncached,
            code => PartKind::Other(code),
        }
    }
}

impl From<PartKind> for u32 {
    fn from(code: PartKind) -> u32 {
        match code {
            PartKind::Cached => 1,
            PartKind::Argument => 2,
            PartKind::Text => 3,
            PartKind::Uncached => 4,
            PartKind::Other(code) => code,
        }
    }
}

/// [`pc_model_options.flags`](crate::ModelOptions)
/// tokenizer only: layouts and token counts, no forward pass
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ModelFlags(u64);

impl ModelFlags {
    /// `PC_MODEL_VOCAB_ONLY`
    pub const VOCAB_ONLY: ModelFlags = ModelFlags(1);
}

flag_set!(ModelFlags);

/// Flags of [`pc_tokenize`](crate::sys::pc_tokenize) and [`pc_detokenize`](crate::sys::pc_detokenize).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TokenizeFlags(u64);

impl TokenizeFlags {
    /// the text of a special token becomes that token, and back
    pub const SPECIAL: TokenizeFlags = TokenizeFlags(1);
    /// adds BOS and EOS by the model's convention
    pub const BOS: TokenizeFlags = TokenizeFlags(2);
}

flag_set!(TokenizeFlags);

/// Bits of a mask of tiers: 1 \<\< [`PC_TIER_…`](crate::Tier)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tiers(u64);

impl Tiers {
    /// `PC_TIERS_RAM`
    pub const RAM: Tiers = Tiers(4);
    /// `PC_TIERS_COMPRESSED`
    pub const COMPRESSED: Tiers = Tiers(8);
    /// `PC_TIERS_DISK`
    pub const DISK: Tiers = Tiers(16);
    /// `PC_TIERS_REMOTE`
    pub const REMOTE: Tiers = Tiers(32);
}

flag_set!(Tiers);

/// [`pc_cache_options.flags`](crate::CacheOptions)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CacheFlags(u64);

impl CacheFlags {
    /// Overwrite states with zeros before their memory is given back.
    pub const ZERO_MEMORY: CacheFlags = CacheFlags(1);
    /// Map all RAW records of the folder instead of reading them. By default: those of 256 KiB or
    /// more, on file systems that are known to be local. Not with `ZERO_MEMORY`, which reads.
    pub const MMAP: CacheFlags = CacheFlags(2);
    /// Load the other members of a union of which one was used, and the modules that follow in the
    /// schema, into free room.
    pub const PREFETCH: CacheFlags = CacheFlags(4);
    /// Write nothing to DISK and REMOTE.
    pub const READ_ONLY: CacheFlags = CacheFlags(8);
    /// Load whatever is there, also where computing promises to be faster (deadlines hold).
    pub const ALWAYS_LOAD: CacheFlags = CacheFlags(16);
    /// Read all records into memory. For folders in which other programs change files: if a mapped
    /// file is cut, or its disk fails, the process ends (SIGBUS). Not together with MMAP.
    pub const NO_MMAP: CacheFlags = CacheFlags(32);
    /// Accept only states that kernels of this machine's class have computed ([`pc_costs.kernels`](crate::Costs);
    /// doc/store.md): bit-equal results among machines that share a folder or server. By default
    /// results are equal within rounding.
    pub const OWN_KERNELS: CacheFlags = CacheFlags(64);
}

flag_set!(CacheFlags);

/// [`pc_schema_options.flags`](crate::SchemaOptions) and [`pc_prompt_options.flags`](crate::PromptOptions)
///
/// [`pc_prompt_options.flags`](crate::PromptOptions) of text that is not PML
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PromptFlags(u64);

impl PromptFlags {
    /// runs of blanks become one space; needless ones vanish (doc/pml.md)
    pub const COMPACT: PromptFlags = PromptFlags(1);
    /// src= may leave the folder of the schema file
    pub const SRC_ANYWHERE: PromptFlags = PromptFlags(2);
    /// several members of a union at once, as the published code allows
    pub const OVERLAP: PromptFlags = PromptFlags(4);
    /// The text of a special token becomes that token. Not for text that others have written: it
    /// could end a turn, or begin one. Without the flag it stays text.
    pub const SPECIAL: PromptFlags = PromptFlags(256);
    /// neither BOS nor EOS is added
    pub const NO_BOS: PromptFlags = PromptFlags(512);
}

flag_set!(PromptFlags);

/// [`pc_generate_options.flags`](crate::GenerateOptions)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GenerateFlags(u64);

impl GenerateFlags {
    /// of a sequence: finished, it has its states, to go on or be forked
    pub const KEEP: GenerateFlags = GenerateFlags(1);
    /// of a sequence: for [`pc_sequence_logits`](crate::sys::pc_sequence_logits)
    pub const LOGITS: GenerateFlags = GenerateFlags(2);
    /// The model's EOS and the stops of the chat template do not end a sample.
    pub const IGNORE_END: GenerateFlags = GenerateFlags(4);
}

flag_set!(GenerateFlags);

/// [`pc_put_options.flags`](crate::PutOptions)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PutFlags(u64);

impl PutFlags {
    /// Waits while too much waits to be written to the tiers below RAM, rather than drop the entry
    /// ([`pc_tier_stats.dropped`](crate::TierStats)). Blocks at most as long as the deadlines of the queue.
    pub const WAIT: PutFlags = PutFlags(1);
}

flag_set!(PutFlags);

/// [`pc_embed_options.flags`](crate::EmbedOptions)
/// length 1 (always so if the model's files say it)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EmbedFlags(u64);

impl EmbedFlags {
    /// `PC_EMBED_NORMALIZE`
    pub const NORMALIZE: EmbedFlags = EmbedFlags(1);
}

flag_set!(EmbedFlags);

/// [`pc_prefill_options.flags`](crate::PrefillOptions)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PrefillFlags(u64);

impl PrefillFlags {
    /// embeddings of length 1 (always so if the model's files say it)
    pub const NORMALIZE: PrefillFlags = PrefillFlags(1);
}

flag_set!(PrefillFlags);

/// [`pc_memo_options.flags`](crate::MemoOptions)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemoFlags(u64);

impl MemoFlags {
    /// Write nothing: beside a process that adds, or alone. Calls that would write return
    /// [`PC_ERR_STATE`](crate::Status::State).
    pub const READ_ONLY: MemoFlags = MemoFlags(1);
    /// Of a new memo: store every layer's input, and search a map for each layer while a prompt is
    /// computed (AttnCache-f, section 5.5). Closer maps, one search per layer. Thresholds are set by
    /// [`pc_memo_set_threshold`](crate::sys::pc_memo_set_threshold).
    pub const LAYERS: MemoFlags = MemoFlags(2);
}

flag_set!(MemoFlags);

/// Outputs that are stored beside a prompt's maps. Who asks for the same prompt again gets them,
/// exact and at once. They count as missing on a machine with other kernels, or with other number
/// formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Outputs(u64);

impl Outputs {
    /// an existing memo: as before; a new one: embeddings, and logits if they
    /// are no larger than the prompt's maps
    pub const DEFAULT: Outputs = Outputs(0);
    /// `PC_OUTPUT_NONE`
    pub const NONE: Outputs = Outputs(1);
    /// by `output_pool`
    pub const EMBEDDINGS: Outputs = Outputs(2);
    /// `PC_OUTPUT_LOGITS`
    pub const LOGITS: Outputs = Outputs(4);
}

flag_set!(Outputs);

/// [`pc_item.flags`](crate::sys::pc_item): cache="false"
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ItemFlags(u64);

impl ItemFlags {
    /// `PC_ITEM_UNCACHED`
    pub const UNCACHED: ItemFlags = ItemFlags(1);
}

flag_set!(ItemFlags);

/// [`pc_system_format.flags`](crate::SystemFormat)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FormatFlags(u64);

impl FormatFlags {
    /// No format: the model's chat template frames system prompt and request.
    pub const CHAT: FormatFlags = FormatFlags(1);
}

flag_set!(FormatFlags);

/// [`pc_chat_options.flags`](crate::ChatOptions)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ChatFlags(u64);

impl ChatFlags {
    /// does not open an answer behind the last message
    pub const NO_ANSWER: ChatFlags = ChatFlags(1);
}

flag_set!(ChatFlags);

/// LSEs are of base 2, as FlashInfer's; else natural ones
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MergeFlags(u64);

impl MergeFlags {
    /// `PC_MERGE_BASE2`
    pub const BASE2: MergeFlags = MergeFlags(1);
}

flag_set!(MergeFlags);

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct ContextOptions {
    /// of the library's pool, or width of `parallel_for`; 0: one per usable core
    pub threads: u32,
    /// which of a backend's devices, counted from 0 ("cuda": of those that `CUDA_VISIBLE_DEVICES`
    /// leaves); "cpu" has none but 0
    pub device: u32,
    /// What computes: "cpu", or the name of a backend module, perhaps with a device: "cuda:1". None:
    /// `PC_BACKEND` of the environment, else "cpu".
    pub backend: Option<String>,
}

impl ContextOptions {
    /// Sets [`ContextOptions::threads`].
    #[must_use]
    pub fn threads(mut self, value: u32) -> Self {
        self.threads = value;
        self
    }

    /// Sets [`ContextOptions::device`].
    #[must_use]
    pub fn device(mut self, value: u32) -> Self {
        self.device = value;
        self
    }

    /// Sets [`ContextOptions::backend`].
    #[must_use]
    pub fn backend(mut self, value: impl Into<String>) -> Self {
        self.backend = Some(value.into());
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_context_options> {
        let mut raw = sys::pc_context_options::default();
        raw.threads = self.threads;
        raw.device = self.device;
        raw.backend = keep.string("backend", &self.backend)?;
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct ModelOptions {
    /// Number format of linear layers and attention. F32 and BF16 expand all matrices. DEFAULT: BF16
    /// if the CPU has bf16 dot products and the file is not F32, else F32; quantised matrices stay
    /// quantised from AVX2 on, with inputs of 8 bits (16 in groups of 16 or 32 inputs that stand out
    /// in their row); their loss is at most that of the weights' format. I8: the same, and also
    /// where kernels are plain C. I16: as I8, with inputs of 16 bits everywhere: twice the products,
    /// a loss below that of BF16.
    pub compute: Dtype,
    /// Number format of K and V. DEFAULT: as compute; of compute I8 and I16 what their DEFAULT would
    /// be, BF16 or F32. I8: encoded segments take a little more than half the bytes of BF16, tokens
    /// of a running request have the format of DEFAULT, and results are [`PC_APPROXIMATE`](crate::Exactness::Approximate). A segment of
    /// one format is never served as one of another.
    pub kv: Dtype,
    /// [`PC_MODEL_…`](crate::ModelFlags)
    pub flags: ModelFlags,
    /// Jinja text if it has "{{" or "{%"; path of a file if it ends in ".jinja" (Jinja) or ".json"
    /// (doc/pml.md); else name of a built-in family ("chatml", "llama2", "llama3", …; "none": chat
    /// tags are empty). None: the model's own. If the model has none, or it is not understood for
    /// certain, chat tags and [`PC_FORMAT_CHAT`](crate::FormatFlags::CHAT) fail. [`pc_prompt_from_messages`](crate::sys::pc_prompt_from_messages) needs less: a template
    /// that can be run.
    pub chat_template: Option<String>,
    /// Folder in which packed weights are kept, so that the next load neither digests nor packs
    /// them; it is made if it is missing. The file there takes about the memory of the weights, and
    /// is written anew when the model's files, the kernels or the library differ. The model maps it
    /// until it is freed: it may be removed meanwhile, but not cut short. A folder that cannot be
    /// used is logged, and the model loads without; "" is [`PC_ERR_INVALID`](crate::Status::Invalid). None: nothing is kept.
    pub packed_weights: Option<String>,
}

impl ModelOptions {
    /// Sets [`ModelOptions::compute`].
    #[must_use]
    pub fn compute(mut self, value: Dtype) -> Self {
        self.compute = value;
        self
    }

    /// Sets [`ModelOptions::kv`].
    #[must_use]
    pub fn kv(mut self, value: Dtype) -> Self {
        self.kv = value;
        self
    }

    /// Sets [`ModelOptions::flags`].
    #[must_use]
    pub fn flags(mut self, value: ModelFlags) -> Self {
        self.flags = value;
        self
    }

    /// Sets [`ModelOptions::chat_template`].
    #[must_use]
    pub fn chat_template(mut self, value: impl Into<String>) -> Self {
        self.chat_template = Some(value.into());
        self
    }

    /// Sets [`ModelOptions::packed_weights`].
    #[must_use]
    pub fn packed_weights(mut self, value: impl Into<String>) -> Self {
        self.packed_weights = Some(value.into());
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_model_options> {
        let mut raw = sys::pc_model_options::default();
        raw.compute = self.compute.into();
        raw.kv = self.kv.into();
        raw.flags = self.flags.bits();
        raw.chat_template = keep.string("chat_template", &self.chat_template)?;
        raw.packed_weights = keep.string("packed_weights", &self.packed_weights)?;
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct CacheOptions {
    /// Budget of RAM, with pins, running loads and data that waits to be written to other tiers.
    /// 0: 1 GiB. Below 4 MiB, 1 MiB more may wait.
    pub ram_bytes: u64,
    /// part of keys that the library makes: others never get states
    pub salt: Vec<u8>,
    /// [`PC_CACHE_…`](crate::CacheFlags)
    pub flags: CacheFlags,
    /// budget of COMPRESSED; 0: no such tier
    pub compressed_bytes: u64,
    /// folder of DISK, made if missing; processes may share it; None: none
    pub disk_path: Option<String>,
    /// its budget; 0: 16 GiB. An excess at opening goes in the background
    pub disk_bytes: u64,
    /// "redis://\[user:password@\]server\[:port\]\[/db\]", nodes of a cluster separated by commas, or one
    /// with "?cluster=1". "rediss://…" uses TLS and may end in options (doc/store.md):
    /// "?cacert=PATH&cert=FILE&key=FILE&sni=NAME&insecure=1".
    /// "redis+unix://\[user:password@\]/path\[?owner=USER\]" is a socket. None: none.
    pub remote: Option<String>,
    /// [`PC_CODEC_…`](crate::Codec) of COMPRESSED; default: ZSTD
    pub compressed_codec: Codec,
    /// [`PC_CODEC_…`](crate::Codec) of DISK; default: RAW
    pub disk_codec: Codec,
    /// [`PC_CODEC_…`](crate::Codec) of REMOTE; default: ZSTD, sealed RAW (doc/store.md)
    pub remote_codec: Codec,
    /// for tiers below RAM; 0: 2 if there are any
    pub io_threads: u32,
    /// 32 bytes that seal records of DISK and REMOTE (XChaCha20-Poly1305). Copied, zeroed with the
    /// cache. None: records are not sealed.
    pub seal_key: Option<[u8; 32]>,
    /// an entry expires so long after its last hit; 0: never
    pub ttl_seconds: f64,
    /// Of one load or store, with connecting; then the request computes. 0: 2.
    pub deadline_seconds: f64,
    /// Percent of the budget of RAM, COMPRESSED and DISK that the entries of one tenant (one salt,
    /// or none) may take: a tenant over it makes room among its own entries. [`pc_cache_set_quota`](crate::sys::pc_cache_set_quota) sets
    /// other limits for single tenants. A folder remembers the number: it holds for all caches that
    /// write there, until one names another. 0: no limit, and in a folder the one that it remembers.
    /// 100: no limit.
    pub tenant_share: u32,
}

impl CacheOptions {
    /// Sets [`CacheOptions::ram_bytes`].
    #[must_use]
    pub fn ram_bytes(mut self, value: u64) -> Self {
        self.ram_bytes = value;
        self
    }

    /// Sets [`CacheOptions::salt`].
    #[must_use]
    pub fn salt(mut self, value: impl Into<Vec<u8>>) -> Self {
        self.salt = value.into();
        self
    }

    /// Sets [`CacheOptions::flags`].
    #[must_use]
    pub fn flags(mut self, value: CacheFlags) -> Self {
        self.flags = value;
        self
    }

    /// Sets [`CacheOptions::compressed_bytes`].
    #[must_use]
    pub fn compressed_bytes(mut self, value: u64) -> Self {
        self.compressed_bytes = value;
        self
    }

    /// Sets [`CacheOptions::disk_path`].
    #[must_use]
    pub fn disk_path(mut self, value: impl Into<String>) -> Self {
        self.disk_path = Some(value.into());
        self
    }

    /// Sets [`CacheOptions::disk_bytes`].
    #[must_use]
    pub fn disk_bytes(mut self, value: u64) -> Self {
        self.disk_bytes = value;
        self
    }

    /// Sets [`CacheOptions::remote`].
    #[must_use]
    pub fn remote(mut self, value: impl Into<String>) -> Self {
        self.remote = Some(value.into());
        self
    }

    /// Sets [`CacheOptions::compressed_codec`].
    #[must_use]
    pub fn compressed_codec(mut self, value: Codec) -> Self {
        self.compressed_codec = value;
        self
    }

    /// Sets [`CacheOptions::disk_codec`].
    #[must_use]
    pub fn disk_codec(mut self, value: Codec) -> Self {
        self.disk_codec = value;
        self
    }

    /// Sets [`CacheOptions::remote_codec`].
    #[must_use]
    pub fn remote_codec(mut self, value: Codec) -> Self {
        self.remote_codec = value;
        self
    }

    /// Sets [`CacheOptions::io_threads`].
    #[must_use]
    pub fn io_threads(mut self, value: u32) -> Self {
        self.io_threads = value;
        self
    }

    /// Sets [`CacheOptions::seal_key`].
    #[must_use]
    pub fn seal_key(mut self, value: [u8; 32]) -> Self {
        self.seal_key = Some(value);
        self
    }

    /// Sets [`CacheOptions::ttl_seconds`].
    #[must_use]
    pub fn ttl_seconds(mut self, value: f64) -> Self {
        self.ttl_seconds = value;
        self
    }

    /// Sets [`CacheOptions::deadline_seconds`].
    #[must_use]
    pub fn deadline_seconds(mut self, value: f64) -> Self {
        self.deadline_seconds = value;
        self
    }

    /// Sets [`CacheOptions::tenant_share`].
    #[must_use]
    pub fn tenant_share(mut self, value: u32) -> Self {
        self.tenant_share = value;
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_cache_options> {
        let mut raw = sys::pc_cache_options::default();
        raw.ram_bytes = self.ram_bytes;
        raw.salt = data_of(&self.salt);
        raw.salt_size = self.salt.len();
        raw.flags = self.flags.bits();
        raw.compressed_bytes = self.compressed_bytes;
        raw.disk_path = keep.string("disk_path", &self.disk_path)?;
        raw.disk_bytes = self.disk_bytes;
        raw.remote = keep.string("remote", &self.remote)?;
        raw.compressed_codec = self.compressed_codec.into();
        raw.disk_codec = self.disk_codec.into();
        raw.remote_codec = self.remote_codec.into();
        raw.io_threads = self.io_threads;
        raw.seal_key = pointer_of(&self.seal_key);
        raw.ttl_seconds = self.ttl_seconds;
        raw.deadline_seconds = self.deadline_seconds;
        raw.tenant_share = self.tenant_share;
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct SchemaOptions {
    /// `PC_PML_…`
    pub flags: PromptFlags,
    /// of one text: longer ones lose their middle; 0: no limit
    pub max_tokens: u32,
    /// For src=. None: the schema file's folder; refused for text in memory.
    pub base_folder: Option<String>,
}

impl SchemaOptions {
    /// Sets [`SchemaOptions::flags`].
    #[must_use]
    pub fn flags(mut self, value: PromptFlags) -> Self {
        self.flags = value;
        self
    }

    /// Sets [`SchemaOptions::max_tokens`].
    #[must_use]
    pub fn max_tokens(mut self, value: u32) -> Self {
        self.max_tokens = value;
        self
    }

    /// Sets [`SchemaOptions::base_folder`].
    #[must_use]
    pub fn base_folder(mut self, value: impl Into<String>) -> Self {
        self.base_folder = Some(value.into());
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_schema_options> {
        let mut raw = sys::pc_schema_options::default();
        raw.flags = self.flags.bits();
        raw.max_tokens = self.max_tokens;
        raw.base_folder = keep.string("base_folder", &self.base_folder)?;
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct EncodeOptions {
    /// [`PC_ENCODE_…`](crate::Encoding)
    pub encoding: Encoding,
    /// of what is stored; 0: the cache's; INFINITY: never expires
    pub ttl_seconds: f64,
    /// lower priorities are evicted first; 0
    pub priority: i32,
    /// 1: pins what is encoded for `pin_owner`
    pub pin: bool,
    /// owner, as in [`pc_cache_pin`](crate::sys::pc_cache_pin)
    pub pin_owner: u64,
    /// until the pin ends; 0: no end
    pub pin_seconds: f64,
    /// of later requests, if longer than the schema; 0: the schema's
    pub rope_regime_length: u64,
    /// \[`salt_count`\] as in [`pc_generate_options`](crate::GenerateOptions): whose the states are from a position on.
    pub salts: Vec<Salt>,
    /// \[32\] as in [`pc_generate_options`](crate::GenerateOptions)
    pub adapter: Option<[u8; 32]>,
}

impl EncodeOptions {
    /// Sets [`EncodeOptions::encoding`].
    #[must_use]
    pub fn encoding(mut self, value: Encoding) -> Self {
        self.encoding = value;
        self
    }

    /// Sets [`EncodeOptions::ttl_seconds`].
    #[must_use]
    pub fn ttl_seconds(mut self, value: f64) -> Self {
        self.ttl_seconds = value;
        self
    }

    /// Sets [`EncodeOptions::priority`].
    #[must_use]
    pub fn priority(mut self, value: i32) -> Self {
        self.priority = value;
        self
    }

    /// Sets [`EncodeOptions::pin`].
    #[must_use]
    pub fn pin(mut self, value: bool) -> Self {
        self.pin = value;
        self
    }

    /// Sets [`EncodeOptions::pin_owner`].
    #[must_use]
    pub fn pin_owner(mut self, value: u64) -> Self {
        self.pin_owner = value;
        self
    }

    /// Sets [`EncodeOptions::pin_seconds`].
    #[must_use]
    pub fn pin_seconds(mut self, value: f64) -> Self {
        self.pin_seconds = value;
        self
    }

    /// Sets [`EncodeOptions::rope_regime_length`].
    #[must_use]
    pub fn rope_regime_length(mut self, value: u64) -> Self {
        self.rope_regime_length = value;
        self
    }

    /// Sets [`EncodeOptions::salts`].
    #[must_use]
    pub fn salts(mut self, value: impl Into<Vec<Salt>>) -> Self {
        self.salts = value.into();
        self
    }

    /// Sets [`EncodeOptions::adapter`].
    #[must_use]
    pub fn adapter(mut self, value: [u8; 32]) -> Self {
        self.adapter = Some(value);
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_encode_options> {
        let mut raw = sys::pc_encode_options::default();
        raw.encoding = self.encoding.into();
        raw.ttl_seconds = self.ttl_seconds;
        raw.priority = self.priority;
        raw.pin = self.pin.into();
        raw.pin_owner = self.pin_owner;
        raw.pin_seconds = self.pin_seconds;
        raw.rope_regime_length = self.rope_regime_length;
        (raw.salts, raw.salt_stride, raw.salt_count) = keep.salts(&self.salts);
        raw.adapter = pointer_of(&self.adapter);
        Ok(raw)
    }

}

/// Of every call that makes a prompt.
#[derive(Clone, Debug, Default)]
pub struct PromptOptions {
    /// `PC_PML_…` of PML, `PC_PROMPT_…` of [`pc_prompt_from_text`](crate::sys::pc_prompt_from_text); others: 0
    pub flags: PromptFlags,
}

impl PromptOptions {
    /// Sets [`PromptOptions::flags`].
    #[must_use]
    pub fn flags(mut self, value: PromptFlags) -> Self {
        self.flags = value;
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_prompt_options> {
        let mut raw = sys::pc_prompt_options::default();
        raw.flags = self.flags.bits();
        Ok(raw)
    }

}

/// How tokens are drawn. A call that gets it copies it with its arrays. The order is vLLM's: biases;
/// `repetition_penalty`; `frequency_penalty` and `presence_penalty`; DRY. Then the likeliest token, if
/// temperature is 0 or `top_k` 1; else temperature, `min_p`, `top_k`, `typical_p`, `top_p` and a draw. Each
/// sees the probabilities that the one before has left.
///
/// Penalties are for tokens so far: arguments and free text of the prompt, pushed tokens and drawn
/// ones. Text of the schema is not penalised. They keep every token possible.
#[derive(Clone, Debug, Default)]
pub struct Sampling {
    /// 0: greedy
    pub temperature: f32,
    /// Keeps the likeliest tokens of this total probability (nucleus; Holtzman et al. 2020, section
    /// 3.1). 0: 1
    pub top_p: f32,
    /// Divides positive logits of tokens so far, multiplies others (CTRL; Keskar et al. 2019,
    /// section 4.1). 0: 1
    pub repetition_penalty: f32,
    /// keeps the likeliest k tokens; 0: all
    pub top_k: u32,
    /// of the draws; the same one gives the same tokens
    pub seed: u64,
    /// keeps tokens of `min_p` \* the top probability or more (Nguyen et al. 2024)
    pub min_p: f32,
    /// Keeps the tokens of this total probability whose information is nearest to the entropy
    /// (locally typical sampling; Meister et al. 2022). 0: 1
    pub typical_p: f32,
    /// As of OpenAI's interface, of any sign: is subtracted from logits of tokens that were drawn.
    /// Pushed tokens do not count.
    pub presence_penalty: f32,
    /// subtracted from a logit for each time its token was drawn
    pub frequency_penalty: f32,
    /// DRY ("don't repeat yourself", text-generation-webui, pull request 5637; llama.cpp): if the
    /// last n tokens, at least `dry_allowed_length`, stand earlier too, `dry_multiplier` \* `dry_base` ^
    /// (n - `dry_allowed_length`) is subtracted from the logit of the token behind them there; the
    /// longest n counts. 0: off
    pub dry_multiplier: f32,
    /// of the formula of `dry_multiplier`, from 1; 0: 1.75
    pub dry_base: f32,
    /// tokens of the shortest repeat that is penalised; 0: 2
    pub dry_allowed_length: u32,
    /// how many of the last tokens penalties look at; 0: all
    pub penalty_last_tokens: u32,
    /// tokens that no repeat reaches over; not penalised by DRY
    pub dry_breakers: Vec<i32>,
    /// whose logits get a bias; one that is named twice, both
    pub bias_tokens: Vec<i32>,
    /// added to logits of `bias_tokens`; -INFINITY forbids one
    pub bias_values: Vec<f32>,
}

impl Sampling {
    /// Sets [`Sampling::temperature`].
    #[must_use]
    pub fn temperature(mut self, value: f32) -> Self {
        self.temperature = value;
        self
    }

    /// Sets [`Sampling::top_p`].
    #[must_use]
    pub fn top_p(mut self, value: f32) -> Self {
        self.top_p = value;
        self
    }

    /// Sets [`Sampling::repetition_penalty`].
    #[must_use]
    pub fn repetition_penalty(mut self, value: f32) -> Self {
        self.repetition_penalty = value;
        self
    }

    /// Sets [`Sampling::top_k`].
    #[must_use]
    pub fn top_k(mut self, value: u32) -> Self {
        self.top_k = value;
        self
    }

    /// Sets [`Sampling::seed`].
    #[must_use]
    pub fn seed(mut self, value: u64) -> Self {
        self.seed = value;
        self
    }

    /// Sets [`Sampling::min_p`].
    #[must_use]
    pub fn min_p(mut self, value: f32) -> Self {
        self.min_p = value;
        self
    }

    /// Sets [`Sampling::typical_p`].
    #[must_use]
    pub fn typical_p(mut self, value: f32) -> Self {
        self.typical_p = value;
        self
    }

    /// Sets [`Sampling::presence_penalty`].
    #[must_use]
    pub fn presence_penalty(mut self, value: f32) -> Self {
        self.presence_penalty = value;
        self
    }

    /// Sets [`Sampling::frequency_penalty`].
    #[must_use]
    pub fn frequency_penalty(mut self, value: f32) -> Self {
        self.frequency_penalty = value;
        self
    }

    /// Sets [`Sampling::dry_multiplier`].
    #[must_use]
    pub fn dry_multiplier(mut self, value: f32) -> Self {
        self.dry_multiplier = value;
        self
    }

    /// Sets [`Sampling::dry_base`].
    #[must_use]
    pub fn dry_base(mut self, value: f32) -> Self {
        self.dry_base = value;
        self
    }

    /// Sets [`Sampling::dry_allowed_length`].
    #[must_use]
    pub fn dry_allowed_length(mut self, value: u32) -> Self {
        self.dry_allowed_length = value;
        self
    }

    /// Sets [`Sampling::penalty_last_tokens`].
    #[must_use]
    pub fn penalty_last_tokens(mut self, value: u32) -> Self {
        self.penalty_last_tokens = value;
        self
    }

    /// Sets [`Sampling::dry_breakers`].
    #[must_use]
    pub fn dry_breakers(mut self, value: impl Into<Vec<i32>>) -> Self {
        self.dry_breakers = value.into();
        self
    }

    /// Sets [`Sampling::bias_tokens`].
    #[must_use]
    pub fn bias_tokens(mut self, value: impl Into<Vec<i32>>) -> Self {
        self.bias_tokens = value.into();
        self
    }

    /// Sets [`Sampling::bias_values`].
    #[must_use]
    pub fn bias_values(mut self, value: impl Into<Vec<f32>>) -> Self {
        self.bias_values = value.into();
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_sampling> {
        let mut raw = sys::pc_sampling::default();
        raw.temperature = self.temperature;
        raw.top_p = self.top_p;
        raw.repetition_penalty = self.repetition_penalty;
        raw.top_k = self.top_k;
        raw.seed = self.seed;
        raw.min_p = self.min_p;
        raw.typical_p = self.typical_p;
        raw.presence_penalty = self.presence_penalty;
        raw.frequency_penalty = self.frequency_penalty;
        raw.dry_multiplier = self.dry_multiplier;
        raw.dry_base = self.dry_base;
        raw.dry_allowed_length = self.dry_allowed_length;
        raw.penalty_last_tokens = self.penalty_last_tokens;
        raw.dry_breakers = array_of(&self.dry_breakers);
        raw.dry_breaker_count = self.dry_breakers.len();
        raw.bias_tokens = array_of(&self.bias_tokens);
        raw.bias_count = self.bias_tokens.len();
        raw.bias_values = array_of(&self.bias_values);
        raw.bias_count = self.bias_values.len();
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// 0: 256; of a sequence: since the last push
    pub max_tokens: u32,
    /// 0: 1; samples share everything but their tails
    pub samples: u32,
    /// [`PC_ENCODE_…`](crate::Encoding)
    pub encoding: Encoding,
    /// [`PC_REPAIR_…`](crate::Repair)
    pub repair: Repair,
    /// of [`PC_REPAIR_FIRST`](crate::Repair::First)
    pub repair_tokens: u32,
    /// of [`PC_REPAIR_TOP`](crate::Repair::Top)
    pub repair_percent: f32,
    /// [`PC_VISIBLE_…`](crate::Visibility)
    pub visibility: Visibility,
    /// in a step, prompts of a higher one are computed first
    pub priority: i32,
    /// None: greedy; sample i uses seed + i
    pub sampling: Option<Sampling>,
    /// besides the model's own
    pub stop_tokens: Vec<i32>,
    /// end a sample; not part of its text
    pub stop_strings: Vec<String>,
    /// [`PC_GENERATE_…`](crate::GenerateFlags)
    pub flags: GenerateFlags,
    /// \[`salt_count`\] ascending by `first`
    pub salts: Vec<Salt>,
    /// Attention maps of similar prompts (memo.h), for plain prompts that the cache has nothing of.
    /// Not with salts: maps have no tenants. None: none.
    pub memo: Option<Memo>,
    /// Overrides every bucket's threshold, also of closed buckets; at most 1. -INFINITY: the nearest
    /// record is a hit. Such hits are neither counted nor verified. None: the buckets' own.
    pub memo_threshold: Option<f64>,
    /// Length that selects the RoPE frequencies of dynamic NTK and LongRoPE (doc/design.md). 0: that
    /// of prompt and `max_tokens`, or of the given segments. It stays for the sequence's life: give
    /// the longest that later turns may reach.
    pub rope_regime_length: u64,
    /// Cancelled so long after the call, or a sequence's last push or `set_options`. 0: never.
    pub deadline_seconds: f64,
    /// Of a sequence: since the last push. So many tokens come before an end token (the model's own
    /// and `stop_tokens`) may be drawn, and before stop strings are looked for. At most `max_tokens`.
    pub min_tokens: u32,
    /// `on_token` gets so many likeliest tokens; at most 64
    pub top_logprobs: u32,
    /// \[32\] digest of the adapter (LoRA) that an application's model computes with. States of one
    /// adapter are never served to another. Copied. None: none. Others: [`PC_ERR_UNSUPPORTED`](crate::Status::Unsupported).
    pub adapter: Option<[u8; 32]>,
    /// any number of the application, for its own model's functions (extend.h)
    pub tag: u64,
}

impl GenerateOptions {
    /// Sets [`GenerateOptions::max_tokens`].
    #[must_use]
    pub fn max_tokens(mut self, value: u32) -> Self {
        self.max_tokens = value;
        self
    }

    /// Sets [`GenerateOptions::samples`].
    #[must_use]
    pub fn samples(mut self, value: u32) -> Self {
        self.samples = value;
        self
    }

    /// Sets [`GenerateOptions::encoding`].
    #[must_use]
    pub fn encoding(mut self, value: Encoding) -> Self {
        self.encoding = value;
        self
    }

    /// Sets [`GenerateOptions::repair`].
    #[must_use]
    pub fn repair(mut self, value: Repair) -> Self {
        self.repair = value;
        self
    }

    /// Sets [`GenerateOptions::repair_tokens`].
    #[must_use]
    pub fn repair_tokens(mut self, value: u32) -> Self {
        self.repair_tokens = value;
        self
    }

    /// Sets [`GenerateOptions::repair_percent`].
    #[must_use]
    pub fn repair_percent(mut self, value: f32) -> Self {
        self.repair_percent = value;
        self
    }

    /// Sets [`GenerateOptions::visibility`].
    #[must_use]
    pub fn visibility(mut self, value: Visibility) -> Self {
        self.visibility = value;
        self
    }

    /// Sets [`GenerateOptions::priority`].
    #[must_use]
    pub fn priority(mut self, value: i32) -> Self {
        self.priority = value;
        self
    }

    /// Sets [`GenerateOptions::sampling`].
    #[must_use]
    pub fn sampling(mut self, value: Sampling) -> Self {
        self.sampling = Some(value);
        self
    }

    /// Sets [`GenerateOptions::stop_tokens`].
    #[must_use]
    pub fn stop_tokens(mut self, value: impl Into<Vec<i32>>) -> Self {
        self.stop_tokens = value.into();
        self
    }

    /// Sets [`GenerateOptions::stop_strings`].
    #[must_use]
    pub fn stop_strings(mut self, value: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.stop_strings = value.into_iter().map(Into::into).collect();
        self
    }

    /// Sets [`GenerateOptions::flags`].
    #[must_use]
    pub fn flags(mut self, value: GenerateFlags) -> Self {
        self.flags = value;
        self
    }

    /// Sets [`GenerateOptions::salts`].
    #[must_use]
    pub fn salts(mut self, value: impl Into<Vec<Salt>>) -> Self {
        self.salts = value.into();
        self
    }

    /// Sets [`GenerateOptions::memo`].
    #[must_use]
    pub fn memo(mut self, value: Memo) -> Self {
        self.memo = Some(value);
        self
    }

    /// Sets [`GenerateOptions::memo_threshold`].
    #[must_use]
    pub fn memo_threshold(mut self, value: f64) -> Self {
        self.memo_threshold = Some(value);
        self
    }

    /// Sets [`GenerateOptions::rope_regime_length`].
    #[must_use]
    pub fn rope_regime_length(mut self, value: u64) -> Self {
        self.rope_regime_length = value;
        self
    }

    /// Sets [`GenerateOptions::deadline_seconds`].
    #[must_use]
    pub fn deadline_seconds(mut self, value: f64) -> Self {
        self.deadline_seconds = value;
        self
    }

    /// Sets [`GenerateOptions::min_tokens`].
    #[must_use]
    pub fn min_tokens(mut self, value: u32) -> Self {
        self.min_tokens = value;
        self
    }

    /// Sets [`GenerateOptions::top_logprobs`].
    #[must_use]
    pub fn top_logprobs(mut self, value: u32) -> Self {
        self.top_logprobs = value;
        self
    }

    /// Sets [`GenerateOptions::adapter`].
    #[must_use]
    pub fn adapter(mut self, value: [u8; 32]) -> Self {
        self.adapter = Some(value);
        self
    }

    /// Sets [`GenerateOptions::tag`].
    #[must_use]
    pub fn tag(mut self, value: u64) -> Self {
        self.tag = value;
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_generate_options> {
        let mut raw = sys::pc_generate_options::default();
        raw.max_tokens = self.max_tokens;
        raw.samples = self.samples;
        raw.encoding = self.encoding.into();
        raw.repair = self.repair.into();
        raw.repair_tokens = self.repair_tokens;
        raw.repair_percent = self.repair_percent;
        raw.visibility = self.visibility.into();
        raw.priority = self.priority;
        raw.sampling = keep.sampling(&self.sampling)?;
        raw.stop_tokens = array_of(&self.stop_tokens);
        raw.stop_token_count = self.stop_tokens.len();
        raw.stop_strings = keep.strings("stop_strings", &self.stop_strings)?;
        raw.stop_string_count = self.stop_strings.len();
        raw.flags = self.flags.bits();
        (raw.salts, raw.salt_stride, raw.salt_count) = keep.salts(&self.salts);
        raw.memo = self.memo.as_ref().map_or(std::ptr::null_mut(), |x| x.as_ptr());
        raw.memo_threshold = self.memo_threshold.as_ref().map_or(std::ptr::null(), |x| x);
        raw.rope_regime_length = self.rope_regime_length;
        raw.deadline_seconds = self.deadline_seconds;
        raw.min_tokens = self.min_tokens;
        raw.top_logprobs = self.top_logprobs;
        raw.adapter = pointer_of(&self.adapter);
        raw.tag = self.tag;
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct BatchOptions {
    /// most sequences in the batch; 0: no limit
    pub max_sequences: u32,
    /// About how many tokens a step computes: one of each running sequence, then of prompts. 0: 2048
    /// while none runs; else, as measured on this machine, as many as take 1.25 times the time of
    /// the running ones. `UINT32_MAX`: new prompts as a whole, one after the other.
    pub step_tokens: u32,
    /// Admission: most tokens of K and V of their own that unfinished sequences may come to hold
    /// together; 0: no limit. Of a sequence, these are the tokens of its prompt, without modules
    /// that are in the cache, and of its answers, up to `max_tokens`; a copy counts in full. One that
    /// has no room yet waits; the first in the order of priority, deadline and joining is admitted
    /// first, and after 64 steps the one that has waited longest. One that never has room fails with
    /// [`PC_ERR_LIMIT`](crate::Status::Limit). Bytes of a token: [`pc_model_info`](crate::ModelInfo).
    pub max_own_tokens: u64,
}

impl BatchOptions {
    /// Sets [`BatchOptions::max_sequences`].
    #[must_use]
    pub fn max_sequences(mut self, value: u32) -> Self {
        self.max_sequences = value;
        self
    }

    /// Sets [`BatchOptions::step_tokens`].
    #[must_use]
    pub fn step_tokens(mut self, value: u32) -> Self {
        self.step_tokens = value;
        self
    }

    /// Sets [`BatchOptions::max_own_tokens`].
    #[must_use]
    pub fn max_own_tokens(mut self, value: u64) -> Self {
        self.max_own_tokens = value;
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_batch_options> {
        let mut raw = sys::pc_batch_options::default();
        raw.max_sequences = self.max_sequences;
        raw.step_tokens = self.step_tokens;
        raw.max_own_tokens = self.max_own_tokens;
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct SaveOptions {
    /// the tenant's; None with `salt_size` 0: the cache's
    pub salt: Vec<u8>,
    /// Mask of [`PC_TIERS_…`](crate::Tiers); 0: all. Saving: those that may have it. Loading: those in which it is
    /// looked for.
    pub tiers: Tiers,
    /// saving: until it expires; 0: the cache's; INFINITY: never
    pub ttl_seconds: f64,
    /// loading: of the whole call; 0: the cache's
    pub deadline_seconds: f64,
    /// saving: lower priorities are evicted first; 0
    pub priority: i32,
}

impl SaveOptions {
    /// Sets [`SaveOptions::salt`].
    #[must_use]
    pub fn salt(mut self, value: impl Into<Vec<u8>>) -> Self {
        self.salt = value.into();
        self
    }

    /// Sets [`SaveOptions::tiers`].
    #[must_use]
    pub fn tiers(mut self, value: Tiers) -> Self {
        self.tiers = value;
        self
    }

    /// Sets [`SaveOptions::ttl_seconds`].
    #[must_use]
    pub fn ttl_seconds(mut self, value: f64) -> Self {
        self.ttl_seconds = value;
        self
    }

    /// Sets [`SaveOptions::deadline_seconds`].
    #[must_use]
    pub fn deadline_seconds(mut self, value: f64) -> Self {
        self.deadline_seconds = value;
        self
    }

    /// Sets [`SaveOptions::priority`].
    #[must_use]
    pub fn priority(mut self, value: i32) -> Self {
        self.priority = value;
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_save_options> {
        let mut raw = sys::pc_save_options::default();
        raw.salt = data_of(&self.salt);
        raw.salt_size = self.salt.len();
        raw.tiers = self.tiers.bits();
        raw.ttl_seconds = self.ttl_seconds;
        raw.deadline_seconds = self.deadline_seconds;
        raw.priority = self.priority;
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct EmbedOptions {
    /// [`PC_EMBED_…`](crate::EmbedFlags)
    pub flags: EmbedFlags,
    /// [`PC_POOL_…`](crate::Pooling)
    pub pool: Pooling,
    /// [`PC_ENCODE_…`](crate::Encoding) of modules, as in [`pc_generate_options`](crate::GenerateOptions)
    pub encoding: Encoding,
    /// \[`salt_count`\] as in [`pc_generate_options`](crate::GenerateOptions), of every prompt
    pub salts: Vec<Salt>,
    /// \[32\] as in [`pc_generate_options`](crate::GenerateOptions)
    pub adapter: Option<[u8; 32]>,
    /// as in [`pc_generate_options`](crate::GenerateOptions)
    pub tag: u64,
    /// as in [`pc_generate_options`](crate::GenerateOptions); 0: each prompt's own length
    pub rope_regime_length: u64,
}

impl EmbedOptions {
    /// Sets [`EmbedOptions::flags`].
    #[must_use]
    pub fn flags(mut self, value: EmbedFlags) -> Self {
        self.flags = value;
        self
    }

    /// Sets [`EmbedOptions::pool`].
    #[must_use]
    pub fn pool(mut self, value: Pooling) -> Self {
        self.pool = value;
        self
    }

    /// Sets [`EmbedOptions::encoding`].
    #[must_use]
    pub fn encoding(mut self, value: Encoding) -> Self {
        self.encoding = value;
        self
    }

    /// Sets [`EmbedOptions::salts`].
    #[must_use]
    pub fn salts(mut self, value: impl Into<Vec<Salt>>) -> Self {
        self.salts = value.into();
        self
    }

    /// Sets [`EmbedOptions::adapter`].
    #[must_use]
    pub fn adapter(mut self, value: [u8; 32]) -> Self {
        self.adapter = Some(value);
        self
    }

    /// Sets [`EmbedOptions::tag`].
    #[must_use]
    pub fn tag(mut self, value: u64) -> Self {
        self.tag = value;
        self
    }

    /// Sets [`EmbedOptions::rope_regime_length`].
    #[must_use]
    pub fn rope_regime_length(mut self, value: u64) -> Self {
        self.rope_regime_length = value;
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_embed_options> {
        let mut raw = sys::pc_embed_options::default();
        raw.flags = self.flags.bits();
        raw.pool = self.pool.into();
        raw.encoding = self.encoding.into();
        (raw.salts, raw.salt_stride, raw.salt_count) = keep.salts(&self.salts);
        raw.adapter = pointer_of(&self.adapter);
        raw.tag = self.tag;
        raw.rope_regime_length = self.rope_regime_length;
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// seconds of computing it
    pub cost_seconds: f64,
    /// until it expires; 0: the cache's; INFINITY: never
    pub ttl_seconds: f64,
    /// lower priorities are evicted first; 0
    pub priority: i32,
    /// \[32\] key of the segment that it saw, which is evicted after it. None: none.
    pub parent: Option<[u8; 32]>,
    /// whose quota counts it; None: the cache's
    pub salt: Vec<u8>,
    /// [`PC_PUT_…`](crate::PutFlags)
    pub flags: PutFlags,
    /// mask of [`PC_TIERS_…`](crate::Tiers): those that may have it; 0: all
    pub tiers: Tiers,
}

impl PutOptions {
    /// Sets [`PutOptions::cost_seconds`].
    #[must_use]
    pub fn cost_seconds(mut self, value: f64) -> Self {
        self.cost_seconds = value;
        self
    }

    /// Sets [`PutOptions::ttl_seconds`].
    #[must_use]
    pub fn ttl_seconds(mut self, value: f64) -> Self {
        self.ttl_seconds = value;
        self
    }

    /// Sets [`PutOptions::priority`].
    #[must_use]
    pub fn priority(mut self, value: i32) -> Self {
        self.priority = value;
        self
    }

    /// Sets [`PutOptions::parent`].
    #[must_use]
    pub fn parent(mut self, value: [u8; 32]) -> Self {
        self.parent = Some(value);
        self
    }

    /// Sets [`PutOptions::salt`].
    #[must_use]
    pub fn salt(mut self, value: impl Into<Vec<u8>>) -> Self {
        self.salt = value.into();
        self
    }

    /// Sets [`PutOptions::flags`].
    #[must_use]
    pub fn flags(mut self, value: PutFlags) -> Self {
        self.flags = value;
        self
    }

    /// Sets [`PutOptions::tiers`].
    #[must_use]
    pub fn tiers(mut self, value: Tiers) -> Self {
        self.tiers = value;
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_put_options> {
        let mut raw = sys::pc_put_options::default();
        raw.cost_seconds = self.cost_seconds;
        raw.ttl_seconds = self.ttl_seconds;
        raw.priority = self.priority;
        raw.parent = pointer_of(&self.parent);
        raw.salt = data_of(&self.salt);
        raw.salt_size = self.salt.len();
        raw.flags = self.flags.bits();
        raw.tiers = self.tiers.bits();
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    /// Of computing a segment: loading is given up when it takes longer. 0: no limit.
    pub cost_seconds: f64,
    /// of the whole call; 0: the cache's
    pub deadline_seconds: f64,
    /// mask of [`PC_TIERS_…`](crate::Tiers): looks only there; 0: all
    pub tiers: Tiers,
}

impl GetOptions {
    /// Sets [`GetOptions::cost_seconds`].
    #[must_use]
    pub fn cost_seconds(mut self, value: f64) -> Self {
        self.cost_seconds = value;
        self
    }

    /// Sets [`GetOptions::deadline_seconds`].
    #[must_use]
    pub fn deadline_seconds(mut self, value: f64) -> Self {
        self.deadline_seconds = value;
        self
    }

    /// Sets [`GetOptions::tiers`].
    #[must_use]
    pub fn tiers(mut self, value: Tiers) -> Self {
        self.tiers = value;
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_get_options> {
        let mut raw = sys::pc_get_options::default();
        raw.cost_seconds = self.cost_seconds;
        raw.deadline_seconds = self.deadline_seconds;
        raw.tiers = self.tiers.bits();
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct FindOptions {
    /// looks only there
    pub tiers: Tiers,
    /// for a server's answer; 0: the cache's
    pub deadline_seconds: f64,
}

impl FindOptions {
    /// Sets [`FindOptions::tiers`].
    #[must_use]
    pub fn tiers(mut self, value: Tiers) -> Self {
        self.tiers = value;
        self
    }

    /// Sets [`FindOptions::deadline_seconds`].
    #[must_use]
    pub fn deadline_seconds(mut self, value: f64) -> Self {
        self.deadline_seconds = value;
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_find_options> {
        let mut raw = sys::pc_find_options::default();
        raw.tiers = self.tiers.bits();
        raw.deadline_seconds = self.deadline_seconds;
        Ok(raw)
    }

}

/// Everything but tokens that can change K and V (doc/format.md, "Identity"). Only `model` is
/// needed.
#[derive(Clone, Debug, Default)]
pub struct KeyParts {
    /// \[32\] fingerprint of the model
    pub model: Option<[u8; 32]>,
    /// \[32\] digest of an adapter; None: none
    pub adapter: Option<[u8; 32]>,
    /// \[32\] digest of the tokenizer; None: zeros
    pub tokenizer: Option<[u8; 32]>,
    /// [`PC_POSITION_…`](crate::PositionScheme)
    pub position_scheme: PositionScheme,
    /// [`PC_DTYPE_…`](crate::Dtype) of K and V
    pub dtype: Dtype,
    /// length that selects the RoPE frequencies; 0: none
    pub rope_regime: u64,
    /// [`PC_LAYOUT_…`](crate::Layout)
    pub layout: Layout,
    /// [`PC_ENCODE_…`](crate::Encoding)
    pub encoding: Encoding,
    /// the tenant's; None with `salt_size` 0: none
    pub salt: Vec<u8>,
}

impl KeyParts {
    /// Sets [`KeyParts::model`].
    #[must_use]
    pub fn model(mut self, value: [u8; 32]) -> Self {
        self.model = Some(value);
        self
    }

    /// Sets [`KeyParts::adapter`].
    #[must_use]
    pub fn adapter(mut self, value: [u8; 32]) -> Self {
        self.adapter = Some(value);
        self
    }

    /// Sets [`KeyParts::tokenizer`].
    #[must_use]
    pub fn tokenizer(mut self, value: [u8; 32]) -> Self {
        self.tokenizer = Some(value);
        self
    }

    /// Sets [`KeyParts::position_scheme`].
    #[must_use]
    pub fn position_scheme(mut self, value: PositionScheme) -> Self {
        self.position_scheme = value;
        self
    }

    /// Sets [`KeyParts::dtype`].
    #[must_use]
    pub fn dtype(mut self, value: Dtype) -> Self {
        self.dtype = value;
        self
    }

    /// Sets [`KeyParts::rope_regime`].
    #[must_use]
    pub fn rope_regime(mut self, value: u64) -> Self {
        self.rope_regime = value;
        self
    }

    /// Sets [`KeyParts::layout`].
    #[must_use]
    pub fn layout(mut self, value: Layout) -> Self {
        self.layout = value;
        self
    }

    /// Sets [`KeyParts::encoding`].
    #[must_use]
    pub fn encoding(mut self, value: Encoding) -> Self {
        self.encoding = value;
        self
    }

    /// Sets [`KeyParts::salt`].
    #[must_use]
    pub fn salt(mut self, value: impl Into<Vec<u8>>) -> Self {
        self.salt = value.into();
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_key_parts> {
        let mut raw = sys::pc_key_parts::default();
        raw.model = pointer_of(&self.model);
        raw.adapter = pointer_of(&self.adapter);
        raw.tokenizer = pointer_of(&self.tokenizer);
        raw.position_scheme = self.position_scheme.into();
        raw.dtype = self.dtype.into();
        raw.rope_regime = self.rope_regime;
        raw.layout = self.layout.into();
        raw.encoding = self.encoding.into();
        raw.salt = data_of(&self.salt);
        raw.salt_size = self.salt.len();
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct ChatOptions {
    /// [`PC_CHAT_…`](crate::ChatFlags)
    pub flags: ChatFlags,
    /// JSON: the list of tools; a template may ignore them; None: none
    pub tools: Option<String>,
    /// JSON: an object of further variables, such as `enable_thinking`
    pub variables: Option<String>,
    /// Date for templates that ask for it, in seconds since 1970. 0: they fall back on their own, so
    /// that states are of use on other days, too.
    pub time: i64,
    /// of [`pc_message.modules`](crate::Message); None: none
    pub schema: Option<Schema>,
}

impl ChatOptions {
    /// Sets [`ChatOptions::flags`].
    #[must_use]
    pub fn flags(mut self, value: ChatFlags) -> Self {
        self.flags = value;
        self
    }

    /// Sets [`ChatOptions::tools`].
    #[must_use]
    pub fn tools(mut self, value: impl Into<String>) -> Self {
        self.tools = Some(value.into());
        self
    }

    /// Sets [`ChatOptions::variables`].
    #[must_use]
    pub fn variables(mut self, value: impl Into<String>) -> Self {
        self.variables = Some(value.into());
        self
    }

    /// Sets [`ChatOptions::time`].
    #[must_use]
    pub fn time(mut self, value: i64) -> Self {
        self.time = value;
        self
    }

    /// Sets [`ChatOptions::schema`].
    #[must_use]
    pub fn schema(mut self, value: Schema) -> Self {
        self.schema = Some(value);
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_chat_options> {
        let mut raw = sys::pc_chat_options::default();
        raw.flags = self.flags.bits();
        raw.tools = keep.string("tools", &self.tools)?;
        raw.variables = keep.string("variables", &self.variables)?;
        raw.time = self.time;
        raw.schema = self.schema.as_ref().map_or(std::ptr::null_mut(), |x| x.as_ptr());
        Ok(raw)
    }

}

/// A message. Arrays have a stride, sizeof([`pc_message`](crate::Message)), beside them.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// "system", "user", "assistant", "tool", …: letters, digits, '\_', '-'
    pub role: Option<String>,
    /// may have NULs; None with `tool_calls`: the template sees none
    pub content: Option<String>,
    /// Paths of modules of [`pc_chat_options.schema`](crate::ChatOptions). Their texts stand in front of content, from the
    /// cache. A conversation names each at most once: at its first use.
    pub modules: Vec<String>,
    /// JSON: the list of an answer's calls, as the template wants them
    pub tool_calls: Option<String>,
    /// None: none
    pub tool_call_id: Option<String>,
    /// None: none
    pub name: Option<String>,
    /// JSON: an object of further members, such as `reasoning_content`
    pub fields: Option<String>,
}

impl Message {
    /// Sets [`Message::role`].
    #[must_use]
    pub fn role(mut self, value: impl Into<String>) -> Self {
        self.role = Some(value.into());
        self
    }

    /// Sets [`Message::content`].
    #[must_use]
    pub fn content(mut self, value: impl Into<String>) -> Self {
        self.content = Some(value.into());
        self
    }

    /// Sets [`Message::modules`].
    #[must_use]
    pub fn modules(mut self, value: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.modules = value.into_iter().map(Into::into).collect();
        self
    }

    /// Sets [`Message::tool_calls`].
    #[must_use]
    pub fn tool_calls(mut self, value: impl Into<String>) -> Self {
        self.tool_calls = Some(value.into());
        self
    }

    /// Sets [`Message::tool_call_id`].
    #[must_use]
    pub fn tool_call_id(mut self, value: impl Into<String>) -> Self {
        self.tool_call_id = Some(value.into());
        self
    }

    /// Sets [`Message::name`].
    #[must_use]
    pub fn name(mut self, value: impl Into<String>) -> Self {
        self.name = Some(value.into());
        self
    }

    /// Sets [`Message::fields`].
    #[must_use]
    pub fn fields(mut self, value: impl Into<String>) -> Self {
        self.fields = Some(value.into());
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_message> {
        let mut raw = sys::pc_message::default();
        raw.role = keep.string("role", &self.role)?;
        (raw.content, raw.content_size) = text_of(&self.content);
        raw.modules = keep.strings("modules", &self.modules)?;
        raw.module_count = self.modules.len();
        raw.tool_calls = keep.string("tool_calls", &self.tool_calls)?;
        raw.tool_call_id = keep.string("tool_call_id", &self.tool_call_id)?;
        raw.name = keep.string("name", &self.name)?;
        raw.fields = keep.string("fields", &self.fields)?;
        Ok(raw)
    }

}

/// A schema made of a format string, as RelayAttention's code has it (section 3.3 of the paper).
#[derive(Clone, Debug, Default)]
pub struct SystemFormat {
    /// of the schema; None: "system"
    pub name: Option<String>,
    /// None: "{`__SYS_PROMPT`}{`__USR_PROMPT`}"
    pub format: Option<String>,
    /// or a file that holds it; a final line break is dropped
    pub format_file: Option<String>,
    /// the system prompt; blanks at its ends are dropped
    pub system: Option<String>,
    /// or a file that holds it
    pub system_file: Option<String>,
    /// or the tokens of everything before the user slot, as they are
    pub tokens: Vec<i32>,
    /// [`PC_FORMAT_…`](crate::FormatFlags)
    pub flags: FormatFlags,
}

impl SystemFormat {
    /// Sets [`SystemFormat::name`].
    #[must_use]
    pub fn name(mut self, value: impl Into<String>) -> Self {
        self.name = Some(value.into());
        self
    }

    /// Sets [`SystemFormat::format`].
    #[must_use]
    pub fn format(mut self, value: impl Into<String>) -> Self {
        self.format = Some(value.into());
        self
    }

    /// Sets [`SystemFormat::format_file`].
    #[must_use]
    pub fn format_file(mut self, value: impl Into<String>) -> Self {
        self.format_file = Some(value.into());
        self
    }

    /// Sets [`SystemFormat::system`].
    #[must_use]
    pub fn system(mut self, value: impl Into<String>) -> Self {
        self.system = Some(value.into());
        self
    }

    /// Sets [`SystemFormat::system_file`].
    #[must_use]
    pub fn system_file(mut self, value: impl Into<String>) -> Self {
        self.system_file = Some(value.into());
        self
    }

    /// Sets [`SystemFormat::tokens`].
    #[must_use]
    pub fn tokens(mut self, value: impl Into<Vec<i32>>) -> Self {
        self.tokens = value.into();
        self
    }

    /// Sets [`SystemFormat::flags`].
    #[must_use]
    pub fn flags(mut self, value: FormatFlags) -> Self {
        self.flags = value;
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_system_format> {
        let mut raw = sys::pc_system_format::default();
        raw.name = keep.string("name", &self.name)?;
        (raw.format, raw.format_size) = text_of(&self.format);
        raw.format_file = keep.string("format_file", &self.format_file)?;
        (raw.system, raw.system_size) = text_of(&self.system);
        raw.system_file = keep.string("system_file", &self.system_file)?;
        raw.tokens = array_of(&self.tokens);
        raw.token_count = self.tokens.len();
        raw.flags = self.flags.bits();
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct SystemsOptions {
    /// of text and tokens ([`pc_system_format`](crate::SystemFormat)); None: "{`__SYS_PROMPT`}{`__USR_PROMPT`}"
    pub format: Option<String>,
    /// or a file that holds it
    pub format_file: Option<String>,
    /// [`PC_ENCODE_…`](crate::Encoding) of later requests; not EXACT
    pub encoding: Encoding,
    /// [`PC_FORMAT_…`](crate::FormatFlags)
    pub flags: FormatFlags,
    /// as in [`pc_encode_options`](crate::EncodeOptions)
    pub rope_regime_length: u64,
}

impl SystemsOptions {
    /// Sets [`SystemsOptions::format`].
    #[must_use]
    pub fn format(mut self, value: impl Into<String>) -> Self {
        self.format = Some(value.into());
        self
    }

    /// Sets [`SystemsOptions::format_file`].
    #[must_use]
    pub fn format_file(mut self, value: impl Into<String>) -> Self {
        self.format_file = Some(value.into());
        self
    }

    /// Sets [`SystemsOptions::encoding`].
    #[must_use]
    pub fn encoding(mut self, value: Encoding) -> Self {
        self.encoding = value;
        self
    }

    /// Sets [`SystemsOptions::flags`].
    #[must_use]
    pub fn flags(mut self, value: FormatFlags) -> Self {
        self.flags = value;
        self
    }

    /// Sets [`SystemsOptions::rope_regime_length`].
    #[must_use]
    pub fn rope_regime_length(mut self, value: u64) -> Self {
        self.rope_regime_length = value;
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_systems_options> {
        let mut raw = sys::pc_systems_options::default();
        (raw.format, raw.format_size) = text_of(&self.format);
        raw.format_file = keep.string("format_file", &self.format_file)?;
        raw.encoding = self.encoding.into();
        raw.flags = self.flags.bits();
        raw.rope_regime_length = self.rope_regime_length;
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct MemoOptions {
    /// [`PC_MEMO_…`](crate::MemoFlags)
    pub flags: MemoFlags,
    /// of the folder; 0: none. Evicts by eviction score
    pub budget_bytes: u64,
    /// of a new memo: [`PC_MAP_F16`](crate::MapFormat::F16) or [`PC_MAP_U8`](crate::MapFormat::U8); 0: F16
    pub map_format: MapFormat,
    /// [`PC_INDEX_…`](crate::Index)
    pub index: Index,
    /// \[`bucket_count`\] of a new memo: largest length of each bucket, ascending. None: 16, 32, 64 … up
    /// to the model's context, at most 4096.
    pub bucket_tokens: Vec<u32>,
    /// of the hits that are also computed in full; 0: 0.01; negative: none
    pub verify_share: f64,
    /// [`pc_memo_tidy`](crate::sys::pc_memo_tidy) compresses records that were not used for so long. 0: never.
    pub cold_seconds: f64,
    /// [`PC_OUTPUT_…`](crate::Outputs) of records that are added from now on
    pub outputs: Outputs,
    /// [`PC_POOL_…`](crate::Pooling) of their embeddings; only together with outputs
    pub output_pool: Pooling,
}

impl MemoOptions {
    /// Sets [`MemoOptions::flags`].
    #[must_use]
    pub fn flags(mut self, value: MemoFlags) -> Self {
        self.flags = value;
        self
    }

    /// Sets [`MemoOptions::budget_bytes`].
    #[must_use]
    pub fn budget_bytes(mut self, value: u64) -> Self {
        self.budget_bytes = value;
        self
    }

    /// Sets [`MemoOptions::map_format`].
    #[must_use]
    pub fn map_format(mut self, value: MapFormat) -> Self {
        self.map_format = value;
        self
    }

    /// Sets [`MemoOptions::index`].
    #[must_use]
    pub fn index(mut self, value: Index) -> Self {
        self.index = value;
        self
    }

    /// Sets [`MemoOptions::bucket_tokens`].
    #[must_use]
    pub fn bucket_tokens(mut self, value: impl Into<Vec<u32>>) -> Self {
        self.bucket_tokens = value.into();
        self
    }

    /// Sets [`MemoOptions::verify_share`].
    #[must_use]
    pub fn verify_share(mut self, value: f64) -> Self {
        self.verify_share = value;
        self
    }

    /// Sets [`MemoOptions::cold_seconds`].
    #[must_use]
    pub fn cold_seconds(mut self, value: f64) -> Self {
        self.cold_seconds = value;
        self
    }

    /// Sets [`MemoOptions::outputs`].
    #[must_use]
    pub fn outputs(mut self, value: Outputs) -> Self {
        self.outputs = value;
        self
    }

    /// Sets [`MemoOptions::output_pool`].
    #[must_use]
    pub fn output_pool(mut self, value: Pooling) -> Self {
        self.output_pool = value;
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_memo_options> {
        let mut raw = sys::pc_memo_options::default();
        raw.flags = self.flags.bits();
        raw.budget_bytes = self.budget_bytes;
        raw.map_format = self.map_format.into();
        raw.index = self.index.into();
        raw.bucket_tokens = array_of(&self.bucket_tokens);
        raw.bucket_count = self.bucket_tokens.len();
        raw.verify_share = self.verify_share;
        raw.cold_seconds = self.cold_seconds;
        raw.outputs = self.outputs.bits() as u32;
        raw.output_pool = self.output_pool.into();
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct MemoWork {
    /// training: same seed, same result
    pub seed: u64,
    /// training; 0: as many as make 4000 batches, 10 to 100
    pub epochs: u32,
    /// tuning: [`PC_LOSS_…`](crate::Loss)
    pub loss: Loss,
    /// tuning: accepted mean loss over all inputs
    pub limit: f64,
    /// training: weight of the maps' distance (paper, equation 2); 0: 0.2
    pub alpha: f64,
    /// tuning: accepted loss of hits at the percentile; 0: 4 \* limit; \< 0: any
    pub hit_limit: f64,
    /// tuning: 0: 95; at most 100, the worst hit
    pub hit_percentile: f64,
}

impl MemoWork {
    /// Sets [`MemoWork::seed`].
    #[must_use]
    pub fn seed(mut self, value: u64) -> Self {
        self.seed = value;
        self
    }

    /// Sets [`MemoWork::epochs`].
    #[must_use]
    pub fn epochs(mut self, value: u32) -> Self {
        self.epochs = value;
        self
    }

    /// Sets [`MemoWork::loss`].
    #[must_use]
    pub fn loss(mut self, value: Loss) -> Self {
        self.loss = value;
        self
    }

    /// Sets [`MemoWork::limit`].
    #[must_use]
    pub fn limit(mut self, value: f64) -> Self {
        self.limit = value;
        self
    }

    /// Sets [`MemoWork::alpha`].
    #[must_use]
    pub fn alpha(mut self, value: f64) -> Self {
        self.alpha = value;
        self
    }

    /// Sets [`MemoWork::hit_limit`].
    #[must_use]
    pub fn hit_limit(mut self, value: f64) -> Self {
        self.hit_limit = value;
        self
    }

    /// Sets [`MemoWork::hit_percentile`].
    #[must_use]
    pub fn hit_percentile(mut self, value: f64) -> Self {
        self.hit_percentile = value;
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_memo_work> {
        let mut raw = sys::pc_memo_work::default();
        raw.seed = self.seed;
        raw.epochs = self.epochs;
        raw.loss = self.loss.into();
        raw.limit = self.limit;
        raw.alpha = self.alpha;
        raw.hit_limit = self.hit_limit;
        raw.hit_percentile = self.hit_percentile;
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct PrefillOptions {
    /// [`PC_PREFILL_…`](crate::PrefillFlags)
    pub flags: PrefillFlags,
    /// None: everything is computed
    pub memo: Option<Memo>,
    /// [`PC_POOL_…`](crate::Pooling)
    pub pool: Pooling,
    /// \[layers\] Layer l reuses the map of layer `map_layers`\[l\] \<= l of the same prompt (AttnCache,
    /// section 5.5: LazyFormer 0 0 2 2 …, SAN). None: none. Not together with a memo.
    pub map_layers: Vec<i32>,
    /// Overrides every bucket's threshold, also of closed buckets; at most 1. -INFINITY: the nearest
    /// record of the same length is a hit. None: the buckets' own.
    pub threshold: Option<f64>,
}

impl PrefillOptions {
    /// Sets [`PrefillOptions::flags`].
    #[must_use]
    pub fn flags(mut self, value: PrefillFlags) -> Self {
        self.flags = value;
        self
    }

    /// Sets [`PrefillOptions::memo`].
    #[must_use]
    pub fn memo(mut self, value: Memo) -> Self {
        self.memo = Some(value);
        self
    }

    /// Sets [`PrefillOptions::pool`].
    #[must_use]
    pub fn pool(mut self, value: Pooling) -> Self {
        self.pool = value;
        self
    }

    /// Sets [`PrefillOptions::map_layers`].
    #[must_use]
    pub fn map_layers(mut self, value: impl Into<Vec<i32>>) -> Self {
        self.map_layers = value.into();
        self
    }

    /// Sets [`PrefillOptions::threshold`].
    #[must_use]
    pub fn threshold(mut self, value: f64) -> Self {
        self.threshold = Some(value);
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_prefill_options> {
        let mut raw = sys::pc_prefill_options::default();
        raw.flags = self.flags.bits();
        raw.memo = self.memo.as_ref().map_or(std::ptr::null_mut(), |x| x.as_ptr());
        raw.pool = self.pool.into();
        raw.map_layers = array_of(&self.map_layers);
        raw.threshold = self.threshold.as_ref().map_or(std::ptr::null(), |x| x);
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct FolderOptions {
    /// \[32\] opens sealed records; None: only their frames are read
    pub seal_key: Option<[u8; 32]>,
}

impl FolderOptions {
    /// Sets [`FolderOptions::seal_key`].
    #[must_use]
    pub fn seal_key(mut self, value: [u8; 32]) -> Self {
        self.seal_key = Some(value);
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_folder_options> {
        let mut raw = sys::pc_folder_options::default();
        raw.seal_key = pointer_of(&self.seal_key);
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct AttendShape {
    /// of queries; a multiple of `kv_heads`
    pub heads: i32,
    /// heads of K and V
    pub kv_heads: i32,
    /// width of a head of K: 1 to 1024
    pub k_dim: i32,
    /// width of a head of V: 1 to 1024
    pub v_dim: i32,
    /// of K and V: [`PC_DTYPE_F32`](crate::Dtype::F32), BF16, F16 or I8
    pub dtype: Dtype,
}

impl AttendShape {
    /// Sets [`AttendShape::heads`].
    #[must_use]
    pub fn heads(mut self, value: i32) -> Self {
        self.heads = value;
        self
    }

    /// Sets [`AttendShape::kv_heads`].
    #[must_use]
    pub fn kv_heads(mut self, value: i32) -> Self {
        self.kv_heads = value;
        self
    }

    /// Sets [`AttendShape::k_dim`].
    #[must_use]
    pub fn k_dim(mut self, value: i32) -> Self {
        self.k_dim = value;
        self
    }

    /// Sets [`AttendShape::v_dim`].
    #[must_use]
    pub fn v_dim(mut self, value: i32) -> Self {
        self.v_dim = value;
        self
    }

    /// Sets [`AttendShape::dtype`].
    #[must_use]
    pub fn dtype(mut self, value: Dtype) -> Self {
        self.dtype = value;
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_attend_shape> {
        let mut raw = sys::pc_attend_shape::default();
        raw.heads = self.heads;
        raw.kv_heads = self.kv_heads;
        raw.k_dim = self.k_dim;
        raw.v_dim = self.v_dim;
        raw.dtype = self.dtype.into();
        Ok(raw)
    }

}

/// States as memory: one block per layer, or as the application likes.
#[derive(Clone, Debug, Default)]
pub struct StatesShape {
    /// \[32\] fingerprint of the model
    pub model: Option<[u8; 32]>,
    /// of the model, as in [`pc_model_info`](crate::ModelInfo)
    pub architecture: String,
    /// [`PC_POSITION_…`](crate::PositionScheme)
    pub position_scheme: PositionScheme,
    /// [`PC_DTYPE_…`](crate::Dtype)
    pub dtype: Dtype,
    /// [`PC_LAYOUT_PAGES`](crate::Layout::Pages), `_LATENT`, or one of the application
    pub layout: Layout,
    /// 1: the states went through something lossy
    pub lossy: bool,
    /// layers of the states
    pub layers: i32,
    /// heads of K and V in each layer
    pub kv_heads: i32,
    /// width of a head of K
    pub k_dim: i32,
    /// width of a head of V
    pub v_dim: i32,
    /// as in [`pc_key_parts`](crate::KeyParts)
    pub rope_regime: u64,
}

impl StatesShape {
    /// Sets [`StatesShape::model`].
    #[must_use]
    pub fn model(mut self, value: [u8; 32]) -> Self {
        self.model = Some(value);
        self
    }

    /// Sets [`StatesShape::architecture`].
    #[must_use]
    pub fn architecture(mut self, value: impl Into<String>) -> Self {
        self.architecture = value.into();
        self
    }

    /// Sets [`StatesShape::position_scheme`].
    #[must_use]
    pub fn position_scheme(mut self, value: PositionScheme) -> Self {
        self.position_scheme = value;
        self
    }

    /// Sets [`StatesShape::dtype`].
    #[must_use]
    pub fn dtype(mut self, value: Dtype) -> Self {
        self.dtype = value;
        self
    }

    /// Sets [`StatesShape::layout`].
    #[must_use]
    pub fn layout(mut self, value: Layout) -> Self {
        self.layout = value;
        self
    }

    /// Sets [`StatesShape::lossy`].
    #[must_use]
    pub fn lossy(mut self, value: bool) -> Self {
        self.lossy = value;
        self
    }

    /// Sets [`StatesShape::layers`].
    #[must_use]
    pub fn layers(mut self, value: i32) -> Self {
        self.layers = value;
        self
    }

    /// Sets [`StatesShape::kv_heads`].
    #[must_use]
    pub fn kv_heads(mut self, value: i32) -> Self {
        self.kv_heads = value;
        self
    }

    /// Sets [`StatesShape::k_dim`].
    #[must_use]
    pub fn k_dim(mut self, value: i32) -> Self {
        self.k_dim = value;
        self
    }

    /// Sets [`StatesShape::v_dim`].
    #[must_use]
    pub fn v_dim(mut self, value: i32) -> Self {
        self.v_dim = value;
        self
    }

    /// Sets [`StatesShape::rope_regime`].
    #[must_use]
    pub fn rope_regime(mut self, value: u64) -> Self {
        self.rope_regime = value;
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_raw> {
        let mut raw = sys::pc_raw::default();
        raw.model = pointer_of(&self.model);
        set_chars("architecture", &mut raw.architecture, &self.architecture)?;
        raw.position_scheme = self.position_scheme.into();
        raw.dtype = self.dtype.into();
        raw.layout = self.layout.into();
        raw.lossy = self.lossy.into();
        raw.layers = self.layers;
        raw.kv_heads = self.kv_heads;
        raw.k_dim = self.k_dim;
        raw.v_dim = self.v_dim;
        raw.rope_regime = self.rope_regime;
        Ok(raw)
    }

    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_raw) -> Self {
        StatesShape {
            model: digest(raw.model),
            architecture: chars(&raw.architecture),
            position_scheme: raw.position_scheme.into(),
            dtype: raw.dtype.into(),
            layout: raw.layout.into(),
            lossy: raw.lossy != 0,
            layers: raw.layers,
            kv_heads: raw.kv_heads,
            k_dim: raw.k_dim,
            v_dim: raw.v_dim,
            rope_regime: raw.rope_regime,
        }
    }
}

/// Rotates queries by (row position - start) for each span, so that one stored run serves every
/// place. Pairs are (i, i + dims / 2), or (2i, 2i + 1) if interleaved. The angle of pair i at
/// distance d is d \* frequency\[i\]; cosine and sine are multiplied by factor.
#[derive(Clone, Debug, Default)]
pub struct Rope {
    /// dimensions of a head that turn: even, at most `k_dim`
    pub dims: i32,
    /// 1: pairs are (2i, 2i + 1)
    pub interleaved: bool,
    /// multiplies cosine and sine; 0: 1
    pub factor: f32,
    /// \[dims / 2\] of each pair
    pub frequency: Vec<f64>,
}

impl Rope {
    /// Sets [`Rope::dims`].
    #[must_use]
    pub fn dims(mut self, value: i32) -> Self {
        self.dims = value;
        self
    }

    /// Sets [`Rope::interleaved`].
    #[must_use]
    pub fn interleaved(mut self, value: bool) -> Self {
        self.interleaved = value;
        self
    }

    /// Sets [`Rope::factor`].
    #[must_use]
    pub fn factor(mut self, value: f32) -> Self {
        self.factor = value;
        self
    }

    /// Sets [`Rope::frequency`].
    #[must_use]
    pub fn frequency(mut self, value: impl Into<Vec<f64>>) -> Self {
        self.frequency = value.into();
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_rope> {
        let mut raw = sys::pc_rope::default();
        raw.dims = self.dims;
        raw.interleaved = self.interleaved.into();
        raw.factor = self.factor;
        raw.frequency = array_of(&self.frequency);
        Ok(raw)
    }

}

/// Options. `Default` gives those of the library; methods of the same names set fields.
#[derive(Clone, Debug, Default)]
pub struct CalibrateOptions {
    /// of the file; None: as above; "": none
    pub path: Option<String>,
}

impl CalibrateOptions {
    /// Sets [`CalibrateOptions::path`].
    #[must_use]
    pub fn path(mut self, value: impl Into<String>) -> Self {
        self.path = Some(value.into());
        self
    }

    #[allow(unused_variables)]
    pub(crate) fn raw(&self, keep: &mut Keep) -> Result<sys::pc_calibrate_options> {
        let mut raw = sys::pc_calibrate_options::default();
        raw.path = keep.string("path", &self.path)?;
        Ok(raw)
    }

}

/// What the library says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelInfo {
    /// "llama", "falcon", …
    pub architecture: String,
    /// digest of everything in the weights that changes K and V
    pub fingerprint: [u8; 32],
    /// layers that have K and V
    pub layers: i32,
    /// of queries, in each layer
    pub heads: i32,
    /// heads of K and V in each layer
    pub kv_heads: i32,
    /// width of one head of K
    pub head_dim: i32,
    /// width of a hidden state
    pub hidden: i32,
    /// rows of logits; an id that the tokenizer does not have is never sampled
    pub vocab: i32,
    /// Largest position + 1 that the model was made for, with linear scaling and YaRN. 0: no limit
    /// (dynamic NTK, or the files name none).
    pub context_length: i32,
    /// [`PC_POSITION_…`](crate::PositionScheme)
    pub position_scheme: PositionScheme,
    /// [`PC_DTYPE_…`](crate::Dtype)
    pub compute: Dtype,
    /// 1: a segment may stand at any start
    pub relocatable: bool,
    /// -1: none
    pub token_bos: i32,
    /// -1: none
    pub token_eos: i32,
    /// -1: none
    pub token_unk: i32,
    /// -1: none
    pub token_pad: i32,
    /// bytes of the weights in memory
    pub weight_bytes: u64,
    /// of encoded segments: K and V, all layers, I8 with scales
    pub kv_bytes_per_token: u64,
    /// 1: an encoder, for [`pc_embed`](crate::sys::pc_embed) and [`pc_prefill`](crate::sys::pc_prefill) only
    pub bidirectional: bool,
    /// of an encoder's head; 0: none
    pub classes: u32,
    /// Costs of linear layers, for bounds and estimates. All 0: unknown.
    /// A pass over n tokens computes n \* `token_flops` and reads `token_bytes`. If experts choose the
    /// weights of each token, it also reads (e - `experts_used`) \* `expert_bytes`, where
    /// e = experts \* (1 - (1 - `experts_used` / experts)^n) if routing is uniform. m rows of logits
    /// add `head_bytes` and m \* `head_flops`. Embeddings and attention are not included.
    ///
    /// of a layer with experts; 0: none
    pub experts: i32,
    /// Costs of linear layers, for bounds and estimates. All 0: unknown.
    /// A pass over n tokens computes n \* `token_flops` and reads `token_bytes`. If experts choose the
    /// weights of each token, it also reads (e - `experts_used`) \* `expert_bytes`, where
    /// e = experts \* (1 - (1 - `experts_used` / experts)^n) if routing is uniform. m rows of logits
    /// add `head_bytes` and m \* `head_flops`. Embeddings and attention are not included.
    ///
    /// experts that one token uses
    pub experts_used: i32,
    /// Costs of linear layers, for bounds and estimates. All 0: unknown.
    /// A pass over n tokens computes n \* `token_flops` and reads `token_bytes`. If experts choose the
    /// weights of each token, it also reads (e - `experts_used`) \* `expert_bytes`, where
    /// e = experts \* (1 - (1 - `experts_used` / experts)^n) if routing is uniform. m rows of logits
    /// add `head_bytes` and m \* `head_flops`. Embeddings and attention are not included.
    ///
    /// of one expert, all layers
    pub expert_bytes: u64,
    /// Costs of linear layers, for bounds and estimates. All 0: unknown.
    /// A pass over n tokens computes n \* `token_flops` and reads `token_bytes`. If experts choose the
    /// weights of each token, it also reads (e - `experts_used`) \* `expert_bytes`, where
    /// e = experts \* (1 - (1 - `experts_used` / experts)^n) if routing is uniform. m rows of logits
    /// add `head_bytes` and m \* `head_flops`. Embeddings and attention are not included.
    ///
    /// of the weights that one token uses, all layers, with its experts
    pub token_bytes: u64,
    /// Costs of linear layers, for bounds and estimates. All 0: unknown.
    /// A pass over n tokens computes n \* `token_flops` and reads `token_bytes`. If experts choose the
    /// weights of each token, it also reads (e - `experts_used`) \* `expert_bytes`, where
    /// e = experts \* (1 - (1 - `experts_used` / experts)^n) if routing is uniform. m rows of logits
    /// add `head_bytes` and m \* `head_flops`. Embeddings and attention are not included.
    ///
    /// of one token; a multiplication and an addition count as two
    pub token_flops: u64,
    /// Costs of linear layers, for bounds and estimates. All 0: unknown.
    /// A pass over n tokens computes n \* `token_flops` and reads `token_bytes`. If experts choose the
    /// weights of each token, it also reads (e - `experts_used`) \* `expert_bytes`, where
    /// e = experts \* (1 - (1 - `experts_used` / experts)^n) if routing is uniform. m rows of logits
    /// add `head_bytes` and m \* `head_flops`. Embeddings and attention are not included.
    ///
    /// of the layer that makes logits (an encoder's: pooler and classes)
    pub head_bytes: u64,
    /// Costs of linear layers, for bounds and estimates. All 0: unknown.
    /// A pass over n tokens computes n \* `token_flops` and reads `token_bytes`. If experts choose the
    /// weights of each token, it also reads (e - `experts_used`) \* `expert_bytes`, where
    /// e = experts \* (1 - (1 - `experts_used` / experts)^n) if routing is uniform. m rows of logits
    /// add `head_bytes` and m \* `head_flops`. Embeddings and attention are not included.
    ///
    /// of one row of logits
    pub head_flops: u64,
}

impl ModelInfo {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_model_info) -> Self {
        ModelInfo {
            architecture: chars(&raw.architecture),
            fingerprint: raw.fingerprint,
            layers: raw.layers,
            heads: raw.heads,
            kv_heads: raw.kv_heads,
            head_dim: raw.head_dim,
            hidden: raw.hidden,
            vocab: raw.vocab,
            context_length: raw.context_length,
            position_scheme: raw.position_scheme.into(),
            compute: raw.compute.into(),
            relocatable: raw.relocatable != 0,
            token_bos: raw.token_bos,
            token_eos: raw.token_eos,
            token_unk: raw.token_unk,
            token_pad: raw.token_pad,
            weight_bytes: raw.weight_bytes,
            kv_bytes_per_token: raw.kv_bytes_per_token,
            bidirectional: raw.bidirectional != 0,
            classes: raw.classes,
            experts: raw.experts,
            experts_used: raw.experts_used,
            expert_bytes: raw.expert_bytes,
            token_bytes: raw.token_bytes,
            token_flops: raw.token_flops,
            head_bytes: raw.head_bytes,
            head_flops: raw.head_flops,
        }
    }
}

/// `tokens_prompt` = `tokens_cached` + `tokens_encoded` + `tokens_repaired` + `tokens_new` + `tokens_memo`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// all tokens before the answer
    pub tokens_prompt: u64,
    /// from the cache, any tier
    pub tokens_cached: u64,
    /// of modules that were missing
    pub tokens_encoded: u64,
    /// cached tokens that were computed again
    pub tokens_repaired: u64,
    /// arguments and free text, but for blocks in the cache
    pub tokens_new: u64,
    /// sampled tokens of all samples
    pub tokens_generated: u64,
    /// bytes of K and V that were reused
    pub bytes_reused: u64,
    /// [`PC_EXACT`](crate::Exactness::Exact), [`PC_REPAIRED`](crate::Exactness::Repaired) or [`PC_APPROXIMATE`](crate::Exactness::Approximate)
    pub exactness: Exactness,
    /// [`PC_REPAIR_…`](crate::Repair) that took effect
    pub repair: Repair,
    /// [`PC_REASON_…`](crate::Reason) of the first part that was not reused
    pub miss_reason: Reason,
    /// [`PC_FINISH_…`](crate::Finish) of sample 0
    pub finish: Finish,
    /// look-ups and placement
    pub seconds_assemble: f64,
    /// encoding missing modules
    pub seconds_encode: f64,
    /// new and repaired tokens, until the first logits
    pub seconds_prefill: f64,
    /// from the call to the first sampled token
    pub seconds_ttft: f64,
    /// everything behind the first token
    pub seconds_decode: f64,
    /// `tokens_cached` by tier
    pub tokens_tier: [u64; 16],
    /// from tiers below RAM
    pub bytes_loaded: u64,
    /// waiting for loads from tiers below RAM
    pub seconds_load: f64,
    /// 1: some states went through a lossy codec
    pub lossy: bool,
    /// 1: other kernels, or unknown ones, computed some states: they differ by rounding
    /// ([`PC_CACHE_OWN_KERNELS`](crate::CacheFlags::OWN_KERNELS)).
    pub other_kernels: bool,
    /// computed with another prompt's maps: values only, keys afterwards
    pub tokens_memo: u64,
    /// features, search, fetching maps; computing is in `seconds_prefill`
    pub seconds_memo: f64,
    /// What the memo answered ([`pc_memo_result`](crate::MemoResult) in memo.h has the same fields).
    ///
    /// [`PC_REASON_…`](crate::Reason) of a miss; NONE: a hit, or there is no memo
    pub memo_reason: Reason,
    /// What the memo answered ([`pc_memo_result`](crate::MemoResult) in memo.h has the same fields).
    ///
    /// number of layers that reused maps
    pub memo_layers: u32,
    /// What the memo answered ([`pc_memo_result`](crate::MemoResult) in memo.h has the same fields).
    ///
    /// the nearest record of this length; -1: none, or it was not asked
    pub memo_record: i64,
    /// What the memo answered ([`pc_memo_result`](crate::MemoResult) in memo.h has the same fields).
    ///
    /// to that record; 1: the same tokens
    pub memo_similarity: f64,
    /// What the memo answered ([`pc_memo_result`](crate::MemoResult) in memo.h has the same fields).
    ///
    /// of the reuse, if verified, by the measure of the bucket's tuning
    pub memo_loss: f64,
    /// What the memo answered ([`pc_memo_result`](crate::MemoResult) in memo.h has the same fields).
    ///
    /// 1: also computed in full; the results are those of that
    pub memo_verified: bool,
    /// What the memo answered ([`pc_memo_result`](crate::MemoResult) in memo.h has the same fields).
    ///
    /// [`PC_REUSE_…`](crate::Reuse) (memo.h)
    pub memo_reuse: Reuse,
    /// What the memo answered ([`pc_memo_result`](crate::MemoResult) in memo.h has the same fields).
    ///
    /// That selected the RoPE frequencies. 0: the model has one RoPE regime.
    pub rope_regime_length: u64,
    /// What the memo answered ([`pc_memo_result`](crate::MemoResult) in memo.h has the same fields).
    ///
    /// LongRoPE: 1 short, 2 long. Dynamic NTK: 1 as trained, else the length. 0: one RoPE regime.
    pub rope_regime: u64,
    /// What the memo answered ([`pc_memo_result`](crate::MemoResult) in memo.h has the same fields).
    ///
    /// of `tokens_encoded`: [`PC_PART_UNCACHED`](crate::PartKind::Uncached)
    pub tokens_uncached: u64,
}

impl Stats {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_stats) -> Self {
        Stats {
            tokens_prompt: raw.tokens_prompt,
            tokens_cached: raw.tokens_cached,
            tokens_encoded: raw.tokens_encoded,
            tokens_repaired: raw.tokens_repaired,
            tokens_new: raw.tokens_new,
            tokens_generated: raw.tokens_generated,
            bytes_reused: raw.bytes_reused,
            exactness: raw.exactness.into(),
            repair: raw.repair.into(),
            miss_reason: raw.miss_reason.into(),
            finish: raw.finish.into(),
            seconds_assemble: raw.seconds_assemble,
            seconds_encode: raw.seconds_encode,
            seconds_prefill: raw.seconds_prefill,
            seconds_ttft: raw.seconds_ttft,
            seconds_decode: raw.seconds_decode,
            tokens_tier: raw.tokens_tier,
            bytes_loaded: raw.bytes_loaded,
            seconds_load: raw.seconds_load,
            lossy: raw.lossy != 0,
            other_kernels: raw.other_kernels != 0,
            tokens_memo: raw.tokens_memo,
            seconds_memo: raw.seconds_memo,
            memo_reason: raw.memo_reason.into(),
            memo_layers: raw.memo_layers,
            memo_record: raw.memo_record,
            memo_similarity: raw.memo_similarity,
            memo_loss: raw.memo_loss,
            memo_verified: raw.memo_verified != 0,
            memo_reuse: raw.memo_reuse.into(),
            rope_regime_length: raw.rope_regime_length,
            rope_regime: raw.rope_regime,
            tokens_uncached: raw.tokens_uncached,
        }
    }
}

/// The tokens that the next step reads.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BatchStats {
    /// sequences in the batch
    pub sequences: u64,
    /// not finished; the next two are theirs
    pub running: u64,
    /// each token counts once for every sequence that sees it
    pub tokens_seen: u64,
    /// each token counts once
    pub tokens_stored: u64,
    /// not admitted in the last step (`max_own_tokens`)
    pub waiting: u64,
    /// that admitted ones may come to hold, as `max_own_tokens` counts them
    pub own_tokens: u64,
}

impl BatchStats {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_batch_stats) -> Self {
        BatchStats {
            sequences: raw.sequences,
            running: raw.running,
            tokens_seen: raw.tokens_seen,
            tokens_stored: raw.tokens_stored,
            waiting: raw.waiting,
            own_tokens: raw.own_tokens,
        }
    }
}

/// Counters since the cache was opened. hits + misses = lookups. The others are of RAM: stored =
/// segments + evicted + removed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CacheStats {
    /// segments that were looked up
    pub lookups: u64,
    /// of lookups: any tier served the segment
    pub hits: u64,
    /// of lookups: no tier served it
    pub misses: u64,
    /// segments that RAM took
    pub stored: u64,
    /// segments larger than the room that the budget leaves
    pub refused: u64,
    /// segments that left RAM to make room
    pub evicted: u64,
    /// segments that left RAM: cleared, expired, or by hand
    pub removed: u64,
    /// segments in RAM now
    pub segments: u64,
    /// bytes of RAM that segments take now
    pub segment_bytes: u64,
    /// of `segment_bytes`: pinned
    pub pinned_bytes: u64,
    /// bytes that RAM may take
    pub budget_bytes: u64,
    /// sum of [`pc_tier_stats.dropped`](crate::TierStats)
    pub dropped: u64,
}

impl CacheStats {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_cache_stats) -> Self {
        CacheStats {
            lookups: raw.lookups,
            hits: raw.hits,
            misses: raw.misses,
            stored: raw.stored,
            refused: raw.refused,
            evicted: raw.evicted,
            removed: raw.removed,
            segments: raw.segments,
            segment_bytes: raw.segment_bytes,
            pinned_bytes: raw.pinned_bytes,
            budget_bytes: raw.budget_bytes,
            dropped: raw.dropped,
        }
    }
}

/// Counters of one tier. offered = stored + refused + failed + known. stored + found = segments +
/// evicted + removed + lost. lookups = hits + misses + `load_failed`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TierStats {
    /// segments that were to be stored
    pub offered: u64,
    /// segments that the tier took
    pub stored: u64,
    /// DISK: that were there at opening, or that other processes wrote
    pub found: u64,
    /// offered, but there already
    pub known: u64,
    /// segments larger than the room that the budget leaves
    pub refused: u64,
    /// segments that could not be stored
    pub failed: u64,
    /// segments that left to make room
    pub evicted: u64,
    /// segments that left: cleared, expired, or by hand
    pub removed: u64,
    /// segments found gone or damaged
    pub lost: u64,
    /// segments in the tier now
    pub segments: u64,
    /// bytes that they take
    pub segment_bytes: u64,
    /// of `segment_bytes`: pinned
    pub pinned_bytes: u64,
    /// bytes that the tier may take; REMOTE: 0
    pub budget_bytes: u64,
    /// of `segment_bytes`: being loaded or written
    pub staging_bytes: u64,
    /// segments that it was asked for
    pub lookups: u64,
    /// of lookups: segments that it gave
    pub hits: u64,
    /// of lookups: segments that it did not have
    pub misses: u64,
    /// of lookups: segments that it had but could not give
    pub load_failed: u64,
    /// of misses: it was there, but computing promised to be faster
    pub slower_than_compute: u64,
    /// bytes of records that were read
    pub bytes_read: u64,
    /// bytes of records that were written
    pub bytes_written: u64,
    /// seconds of reading, all threads
    pub seconds_read: f64,
    /// seconds of writing, all threads
    pub seconds_written: f64,
    /// DISK: bytes of mapped files, in RAM (and in its `segment_bytes` and budget) or in use. They are
    /// page cache, not memory of [`pc_allocator`](crate::sys::pc_allocator).
    pub mapped_bytes: u64,
    /// DISK: of evicted: in the background, excess at opening
    pub evicted_behind: u64,
    /// DISK: of `segment_bytes`: over the budget, about to be evicted
    pub excess_bytes: u64,
    /// [`PC_REASON_…`](crate::Reason) why the tier is out of use, but for retries; NONE: it is not
    pub reason: Reason,
    /// Not of offered: entries that were to be written to the tier and were given up on the way. Too
    /// much waited to be written ([`PC_PUT_WAIT`](crate::PutFlags::WAIT) waits instead), or the tier is out of use. An entry
    /// that had no room is written at its next use in RAM, if there is room then.
    pub dropped: u64,
}

impl TierStats {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_tier_stats) -> Self {
        TierStats {
            offered: raw.offered,
            stored: raw.stored,
            found: raw.found,
            known: raw.known,
            refused: raw.refused,
            failed: raw.failed,
            evicted: raw.evicted,
            removed: raw.removed,
            lost: raw.lost,
            segments: raw.segments,
            segment_bytes: raw.segment_bytes,
            pinned_bytes: raw.pinned_bytes,
            budget_bytes: raw.budget_bytes,
            staging_bytes: raw.staging_bytes,
            lookups: raw.lookups,
            hits: raw.hits,
            misses: raw.misses,
            load_failed: raw.load_failed,
            slower_than_compute: raw.slower_than_compute,
            bytes_read: raw.bytes_read,
            bytes_written: raw.bytes_written,
            seconds_read: raw.seconds_read,
            seconds_written: raw.seconds_written,
            mapped_bytes: raw.mapped_bytes,
            evicted_behind: raw.evicted_behind,
            excess_bytes: raw.excess_bytes,
            reason: raw.reason.into(),
            dropped: raw.dropped,
        }
    }
}

/// What the library says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GetInfo {
    /// [`PC_TIER_…`](crate::Tier) that it came from
    pub tier: Tier,
    /// [`PC_REASON_…`](crate::Reason) of a miss
    pub reason: Reason,
    /// 1: it went through a lossy codec, or was stored as lossy
    pub lossy: bool,
    /// seconds of the whole call
    pub seconds: f64,
}

impl GetInfo {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_get_info) -> Self {
        GetInfo {
            tier: raw.tier.into(),
            reason: raw.reason.into(),
            lossy: raw.lossy != 0,
            seconds: raw.seconds,
        }
    }
}

/// What the library says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// [`PC_EVENT_…`](crate::EventKind)
    pub kind: EventKind,
    /// [`PC_TIER_…`](crate::Tier)
    pub tier: Tier,
    /// [`PC_REASON_…`](crate::Reason)
    pub reason: Reason,
    /// tokens of the segment
    pub tokens: u32,
    /// What DISK evicts or removes of sealed records that this process has neither written nor read
    /// is told by its name instead ([`pc_record_info.name`](crate::RecordInfo)).
    pub key: [u8; 32],
    /// bytes of the segment in this tier
    pub bytes: u64,
    /// seconds that it took
    pub seconds: f64,
}

impl Event {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_event) -> Self {
        Event {
            kind: raw.kind.into(),
            tier: raw.tier.into(),
            reason: raw.reason.into(),
            tokens: raw.tokens,
            key: raw.key,
            bytes: raw.bytes,
            seconds: raw.seconds,
        }
    }
}

/// tokens = `tokens_cached` + `tokens_computed`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EmbedStats {
    /// number of prompts
    pub prompts: u64,
    /// tokens of all prompts
    pub tokens: u64,
    /// from the cache, any tier
    pub tokens_cached: u64,
    /// others, with modules that were missing and are stored now
    pub tokens_computed: u64,
    /// [`PC_EXACT`](crate::Exactness::Exact) …: of the prompt whose states are the least exact
    pub exactness: Exactness,
    /// [`PC_REASON_…`](crate::Reason) of the first part that was not reused
    pub miss_reason: Reason,
    /// looking up, loading and encoding what can be reused
    pub seconds_gather: f64,
    /// computing the rest, and pooling
    pub seconds_forward: f64,
}

impl EmbedStats {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_embed_stats) -> Self {
        EmbedStats {
            prompts: raw.prompts,
            tokens: raw.tokens,
            tokens_cached: raw.tokens_cached,
            tokens_computed: raw.tokens_computed,
            exactness: raw.exactness.into(),
            miss_reason: raw.miss_reason.into(),
            seconds_gather: raw.seconds_gather,
            seconds_forward: raw.seconds_forward,
        }
    }
}

/// What the library says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MemoBucket {
    /// length of its shortest prompts
    pub min_tokens: u32,
    /// length of its longest prompts
    pub max_tokens: u32,
    /// records that it holds
    pub records: u64,
    /// 1: it has a projector
    pub trained: bool,
    /// 1: it is used
    pub open: bool,
    /// [`PC_REASON_…`](crate::Reason) why it is closed
    pub reason: Reason,
    /// [`PC_LOSS_…`](crate::Loss) of its tuning
    pub loss: Loss,
    /// least similarity of a hit: 1 - distance of features, no lower bound
    pub threshold: f64,
    /// [`pc_memo_work.limit`](crate::MemoWork) of its tuning
    pub limit: f64,
    /// mean loss over all inputs of the tuning
    pub tuned_loss: f64,
    /// share of hits among them
    pub tuned_hit_rate: f64,
    /// mean of the hits verified since
    pub verified_loss: f64,
    /// hits since then that were also computed in full
    pub verified: u64,
    /// Of the tuning's hits; 0: unknown.
    ///
    /// [`pc_memo_work.hit_limit`](crate::MemoWork); \< 0: none
    pub hit_limit: f64,
    /// Of the tuning's hits; 0: unknown.
    ///
    /// [`pc_memo_work.hit_percentile`](crate::MemoWork)
    pub hit_percentile: f64,
    /// Of the tuning's hits; 0: unknown.
    ///
    /// mean
    pub hit_loss: f64,
    /// Of the tuning's hits; 0: unknown.
    ///
    /// at the percentile
    pub hit_loss_high: f64,
    /// Of the tuning's hits; 0: unknown.
    ///
    /// of the worst hit
    pub hit_loss_worst: f64,
}

impl MemoBucket {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_memo_bucket) -> Self {
        MemoBucket {
            min_tokens: raw.min_tokens,
            max_tokens: raw.max_tokens,
            records: raw.records,
            trained: raw.trained != 0,
            open: raw.open != 0,
            reason: raw.reason.into(),
            loss: raw.loss.into(),
            threshold: raw.threshold,
            limit: raw.limit,
            tuned_loss: raw.tuned_loss,
            tuned_hit_rate: raw.tuned_hit_rate,
            verified_loss: raw.verified_loss,
            verified: raw.verified,
            hit_limit: raw.hit_limit,
            hit_percentile: raw.hit_percentile,
            hit_loss: raw.hit_loss,
            hit_loss_high: raw.hit_loss_high,
            hit_loss_worst: raw.hit_loss_worst,
        }
    }
}

/// Counters since the memo was opened. lookups = hits + misses. stored (with the records that were
/// there at opening) = live + evicted + removed + damaged.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MemoStats {
    /// prompts that were looked up
    pub lookups: u64,
    /// of lookups: prompts that reused something
    pub hits: u64,
    /// of lookups: prompts that reused nothing
    pub misses: u64,
    /// of hits: also computed in full
    pub verified: u64,
    /// records that were added
    pub stored: u64,
    /// records now
    pub live: u64,
    /// records that left to make room
    pub evicted: u64,
    /// records that left, neither evicted nor damaged
    pub removed: u64,
    /// records found damaged, and dropped
    pub damaged: u64,
    /// bytes of the maps
    pub bytes: u64,
    /// bytes that the maps may take; 0: no limit
    pub budget_bytes: u64,
    /// of hits: answered by stored outputs
    pub output_hits: u64,
    /// of live: records with stored outputs
    pub outputs: u64,
}

impl MemoStats {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_memo_stats) -> Self {
        MemoStats {
            lookups: raw.lookups,
            hits: raw.hits,
            misses: raw.misses,
            verified: raw.verified,
            stored: raw.stored,
            live: raw.live,
            evicted: raw.evicted,
            removed: raw.removed,
            damaged: raw.damaged,
            bytes: raw.bytes,
            budget_bytes: raw.budget_bytes,
            output_hits: raw.output_hits,
            outputs: raw.outputs,
        }
    }
}

/// The result of a memo for one prompt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MemoResult {
    /// [`PC_EXACT`](crate::Exactness::Exact) or [`PC_APPROXIMATE`](crate::Exactness::Approximate)
    pub exactness: Exactness,
    /// [`PC_REASON_…`](crate::Reason) of a miss; NONE: a hit, or there is no memo
    pub reason: Reason,
    /// the nearest record of this length; -1: none, or the memo was not asked
    pub record: i64,
    /// To it; 1: the same tokens. [`PC_MEMO_LAYERS`](crate::MemoFlags::LAYERS): the least of the layers that reused maps, or the
    /// greatest of all.
    pub similarity: f64,
    /// 1: also computed in full; the results are those of the full computation
    pub verified: bool,
    /// number of layers that reused maps
    pub layers: u32,
    /// of the reuse, if verified, by the measure of the bucket's tuning
    pub loss: f64,
    /// [`PC_REUSE_…`](crate::Reuse)
    pub reuse: Reuse,
}

impl MemoResult {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_memo_result) -> Self {
        MemoResult {
            exactness: raw.exactness.into(),
            reason: raw.reason.into(),
            record: raw.record,
            similarity: raw.similarity,
            verified: raw.verified != 0,
            layers: raw.layers,
            loss: raw.loss,
            reuse: raw.reuse.into(),
        }
    }
}

/// Seconds of all steps add up to the cost of a reuse.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PrefillStats {
    /// number of prompts
    pub inputs: u64,
    /// tokens of all prompts
    pub tokens: u64,
    /// prompts that reused maps or outputs
    pub hits: u64,
    /// tokens of the hits
    pub hit_tokens: u64,
    /// pooling and projecting first inputs
    pub seconds_features: f64,
    /// searching the index
    pub seconds_search: f64,
    /// fetching maps and stored outputs
    pub seconds_maps: f64,
    /// computing prompts
    pub seconds_forward: f64,
    /// computing hits in full
    pub seconds_verify: f64,
    /// of hits: answered by stored outputs
    pub output_hits: u64,
}

impl PrefillStats {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_prefill_stats) -> Self {
        PrefillStats {
            inputs: raw.inputs,
            tokens: raw.tokens,
            hits: raw.hits,
            hit_tokens: raw.hit_tokens,
            seconds_features: raw.seconds_features,
            seconds_search: raw.seconds_search,
            seconds_maps: raw.seconds_maps,
            seconds_forward: raw.seconds_forward,
            seconds_verify: raw.seconds_verify,
            output_hits: raw.output_hits,
        }
    }
}

/// What the library says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SystemInfo {
    /// the name, with a NUL
    pub name: String,
    /// positions that the schema spans
    pub length: i64,
    /// its segments that are pinned in the cache
    pub pinned: u64,
    /// how often the name was filled in since it was last absent
    pub filled: u64,
}

impl SystemInfo {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_system_info) -> Self {
        SystemInfo {
            name: chars(&raw.name),
            length: raw.length,
            pinned: raw.pinned,
            filled: raw.filled,
        }
    }
}

/// More than [`pc_model_info`](crate::ModelInfo) says. Texts are borrowed from the [`pc_model_file`](crate::sys::pc_model_file).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelFileInfo {
    /// [`PC_MODEL_FILE_…`](crate::ModelFileKind)
    pub kind: ModelFileKind,
    /// What [`pc_model_load`](crate::sys::pc_model_load) returns: [`PC_OK`](crate::Status::Ok), as far as can be seen without the weights' values, or the
    /// error. With an error, fields that could not be found out are 0 or "".
    pub refusal: Status,
    /// of the refusal, in one line that names the file
    pub reason: String,
    /// in words: "Qwen 3 MoE"; "": not in the library's table
    pub family: String,
    /// "plain", "linear", "dynamic", "yarn", "llama3", "longrope" or
    /// "factors"; "": no RoPE
    pub rope_scaling: String,
    /// "byte-level BPE", …; "": none
    pub tokenizer: String,
    /// name of the chat template; "": none, or not understood
    pub chat: String,
    /// why not, or why it takes no system prompt; "": nothing is amiss
    pub chat_reason: String,
    /// why segments cannot be moved, "has learned positions …"; ""
    pub fixed: String,
    /// that computes: "cpu"
    pub backend: String,
    /// of all files with weights
    pub file_bytes: u64,
    /// number of tensors
    pub tensors: u64,
    /// numbers in all tensors
    pub parameters: u64,
    /// of [`pc_model_info.weight_bytes`](crate::ModelInfo): of what stays quantised
    pub quantised_bytes: u64,
    /// Of one token of an encoded segment, K and V of all layers, by the [`PC_DTYPE_…`](crate::Dtype) of
    /// [`pc_model_options.kv`](crate::ModelOptions); 0: there is no such format. \[0\]: as the options say.
    pub kv_bytes: [u64; 16],
    /// base of RoPE; 0: no RoPE
    pub rope_theta: f64,
    /// by which the scaling stretches the context; 0: none
    pub rope_factor: f64,
    /// original context length that the scaling begins at; 0: none
    pub rope_length: f64,
    /// dimensions of a head that turn
    pub rope_dims: i32,
    /// width of a head's values
    pub value_dim: i32,
    /// of attention, in tokens; 0: none
    pub window: i32,
    /// layers that have the window
    pub window_layers: i32,
    /// attention stays within chunks of so many positions; 0: none
    pub chunk: i32,
    /// layers that have chunks
    pub chunk_layers: i32,
    /// without RoPE, in a model with it
    pub plain_layers: i32,
    /// width of the latent vector of K and V (MLA); 0: none
    pub latent: i32,
    /// dimensions that turn beside it
    pub latent_rotated: i32,
    /// layers that have experts
    pub expert_layers: i32,
    /// 1: queries and keys have norms
    pub query_norms: bool,
    /// 1: heads have a sink in their softmax
    pub sinks: bool,
    /// tokens of the tokenizer
    pub vocabulary: i32,
    /// 1: the chat template takes a system prompt
    pub system_role: bool,
    /// RoPE base of layers with the window, if it is another; 0: it is not
    pub window_theta: f64,
}

impl ModelFileInfo {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_model_file_info) -> Self {
        ModelFileInfo {
            kind: raw.kind.into(),
            refusal: raw.refusal.into(),
            reason: borrowed(raw.reason),
            family: borrowed(raw.family),
            rope_scaling: borrowed(raw.rope_scaling),
            tokenizer: borrowed(raw.tokenizer),
            chat: borrowed(raw.chat),
            chat_reason: borrowed(raw.chat_reason),
            fixed: borrowed(raw.fixed),
            backend: borrowed(raw.backend),
            file_bytes: raw.file_bytes,
            tensors: raw.tensors,
            parameters: raw.parameters,
            quantised_bytes: raw.quantised_bytes,
            kv_bytes: raw.kv_bytes,
            rope_theta: raw.rope_theta,
            rope_factor: raw.rope_factor,
            rope_length: raw.rope_length,
            rope_dims: raw.rope_dims,
            value_dim: raw.value_dim,
            window: raw.window,
            window_layers: raw.window_layers,
            chunk: raw.chunk,
            chunk_layers: raw.chunk_layers,
            plain_layers: raw.plain_layers,
            latent: raw.latent,
            latent_rotated: raw.latent_rotated,
            expert_layers: raw.expert_layers,
            query_norms: raw.query_norms != 0,
            sinks: raw.sinks != 0,
            vocabulary: raw.vocabulary,
            system_role: raw.system_role != 0,
            window_theta: raw.window_theta,
        }
    }
}

/// Tensors of one number format.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelFileType {
    /// name of the format: "`Q4_K`"; static
    pub name: String,
    /// tensors in this format
    pub tensors: u64,
    /// numbers in these tensors
    pub parameters: u64,
    /// bytes of these tensors in the files
    pub bytes: u64,
    /// 1: matrices are computed with as they are stored; 0: they are expanded or rounded to
    /// [`pc_model_info.compute`](crate::ModelInfo). Vectors are expanded.
    pub kept: bool,
}

impl ModelFileType {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_model_file_type) -> Self {
        ModelFileType {
            name: borrowed(raw.name),
            tensors: raw.tensors,
            parameters: raw.parameters,
            bytes: raw.bytes,
            kept: raw.kept != 0,
        }
    }
}

/// A record. Without the key of a sealed record, model and shape are zero.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RecordInfo {
    /// of a sealed record that was not opened: `name`
    pub key: [u8; 32],
    /// fingerprint of the model
    pub model: [u8; 32],
    /// of the model, as in [`pc_model_info`](crate::ModelInfo)
    pub architecture: String,
    /// [`PC_CODEC_…`](crate::Codec)
    pub codec: Codec,
    /// 1: its states went through a lossy codec
    pub lossy: bool,
    /// 1: sealed with a `seal_key`
    pub sealed: bool,
    /// [`PC_POSITION_…`](crate::PositionScheme)
    pub position_scheme: PositionScheme,
    /// [`PC_DTYPE_…`](crate::Dtype)
    pub dtype: Dtype,
    /// [`PC_LAYOUT_…`](crate::Layout)
    pub layout: Layout,
    /// [`PC_ENCODE_…`](crate::Encoding)
    pub encoding: Encoding,
    /// layers of its states
    pub layers: i32,
    /// heads of K and V in each layer
    pub kv_heads: i32,
    /// width of a head of K
    pub k_dim: i32,
    /// width of a head of V
    pub v_dim: i32,
    /// of the format: major \* 256 + minor
    pub version: u32,
    /// tokens of the segment
    pub tokens: u64,
    /// bytes of its states as a segment
    pub state_bytes: u64,
    /// bytes of its file
    pub file_bytes: u64,
    /// seconds of computing it
    pub cost_seconds: f64,
    /// when, in seconds since 1970
    pub written: i64,
    /// when, in seconds since 1970; 0: never
    pub expires: i64,
    /// Id of its `seal_key`, which does not reveal the key; part of the file's name.
    pub seal_id: [u8; 16],
    /// That computed it, as in [`pc_costs`](crate::Costs), with oneDNN if it took part; "": unknown.
    pub kernels: String,
    /// of its file's name, between key and suffix; "": none
    pub variant: String,
    /// 1: all of it could be read; 0: its key or codec is missing
    pub opened: bool,
    /// In its file's name: the key, of a sealed record a digest of it that takes the `seal_key`.
    pub name: [u8; 32],
}

impl RecordInfo {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_record_info) -> Self {
        RecordInfo {
            key: raw.key,
            model: raw.model,
            architecture: chars(&raw.architecture),
            codec: raw.codec.into(),
            lossy: raw.lossy != 0,
            sealed: raw.sealed != 0,
            position_scheme: raw.position_scheme.into(),
            dtype: raw.dtype.into(),
            layout: raw.layout.into(),
            encoding: raw.encoding.into(),
            layers: raw.layers,
            kv_heads: raw.kv_heads,
            k_dim: raw.k_dim,
            v_dim: raw.v_dim,
            version: raw.version,
            tokens: raw.tokens,
            state_bytes: raw.state_bytes,
            file_bytes: raw.file_bytes,
            cost_seconds: raw.cost_seconds,
            written: raw.written,
            expires: raw.expires,
            seal_id: raw.seal_id,
            kernels: chars(&raw.kernels),
            variant: chars(&raw.variant),
            opened: raw.opened != 0,
            name: raw.name,
        }
    }
}

/// What the library says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Costs {
    /// its name, as the operating system has it
    pub cpu: String,
    /// of the CPU: "avx512bf16", …
    pub kernels: String,
    /// [`PC_COSTS_…`](crate::CostSource)
    pub source: CostSource,
    /// \[i\]: nanoseconds of one thread for 2^i queries over one token of one K/V head of 128
    /// dimensions, with K and V in the second-level cache.
    pub cached_ns: [f64; 16],
    /// the same with K and V in memory
    pub memory_ns: [f64; 16],
}

impl Costs {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_costs) -> Self {
        Costs {
            cpu: chars(&raw.cpu),
            kernels: chars(&raw.kernels),
            source: raw.source.into(),
            cached_ns: raw.cached_ns,
            memory_ns: raw.memory_ns,
        }
    }
}

/// What the library says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PluginInfo {
    /// "onednn"; these three live as long as the library
    pub name: String,
    /// of the file; "": linked in, not found or not built
    pub path: String,
    /// MISSING: one line that names file and cause; else ""
    pub reason: String,
    /// [`PC_PLUGIN_…`](crate::PluginState)
    pub state: PluginState,
}

impl PluginInfo {
    #[allow(dead_code)]
    pub(crate) fn from_raw(raw: &sys::pc_plugin_info) -> Self {
        PluginInfo {
            name: borrowed(raw.name),
            path: borrowed(raw.path),
            reason: borrowed(raw.reason),
            state: raw.state.into(),
        }
    }
}
