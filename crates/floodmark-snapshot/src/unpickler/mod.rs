//! Reads the opcodes of protocols 0 to 5, as data.
//!
//! No opcode runs code: opcodes that import or call are errors. The unpickler builds no tree of objects: as soon as the items
//! of a dict are set, the dict becomes one small [`Value`]. The reference for the opcodes is CPython's `pickletools.py`.

mod container_opcodes;
mod fast_path;
mod memo;
mod open_containers;

use crate::contents::snapshot::Contents;
use crate::contents::value::Value;
use crate::error::SnapshotError;
use crate::pickle::input::PickleInput;
use crate::pickle::opcode::{self as op, name};
use crate::unpickler::memo::Memo;
use crate::unpickler::open_containers::OpenContainers;

/// The bound on the stack. No snapshot needs more: the C++ pickler pushes all events of a device.
const MOST_VALUES: usize = 1 << 24;
/// The bound on the nesting of lists and dicts.
const MOST_MARKS: usize = 1 << 12;
const NEWEST_PROTOCOL: u8 = 5;

/// Reads one pickle.
pub(crate) struct Unpickler<S> {
    pub(crate) input: S,
    pub(crate) stack: Vec<Value>,
    /// The heights of the stack at each `MARK`.
    marks: Vec<usize>,
    pub(crate) memo: Memo,
    pub(crate) open: OpenContainers,
    pub(crate) contents: Contents,
    /// The current opcode, and its offset.
    opcode: u8,
    offset: u64,
}

impl<S: PickleInput> Unpickler<S> {
    pub(crate) fn new(input: S) -> Self {
        Self {
            input,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Memo::default(),
            open: OpenContainers::default(),
            contents: Contents::default(),
            opcode: 0,
            offset: 0,
        }
    }

    /// Reads to the end of the pickle and of its input. Returns the outermost value and the contents.
    pub(crate) fn run(mut self) -> Result<(Value, Contents), SnapshotError> {
        loop {
            self.offset = self.input.offset();
            self.opcode = self.input.byte()?;
            if self.opcode == op::STOP {
                let value = self.pop_closed()?;
                self.input.drain()?;
                return Ok((value, self.contents));
            }
            self.step()?;
        }
    }

    #[inline]
    fn step(&mut self) -> Result<(), SnapshotError> {
        match self.opcode {
            op::LONG_BINGET => {
                let index = u32::from_le_bytes(self.input.array()?);
                self.get(index)
            }
            op::BINGET => {
                let index = self.input.byte()?;
                self.get(index.into())
            }
            op::MEMOIZE => self.put(self.memo.next_index()),
            op::LONG1 => {
                let length = self.input.byte()?;
                self.push_long(length.into())
            }
            op::MARK => self.mark(),
            op::BININT1 => {
                let number = self.input.byte()?;
                self.push(Value::Int(number.into()))
            }
            op::BININT => {
                let number = i32::from_le_bytes(self.input.array()?);
                self.push(Value::Int(number.into()))
            }
            op::BININT2 => {
                let number = u16::from_le_bytes(self.input.array()?);
                self.push(Value::Int(number.into()))
            }
            op::SHORT_BINUNICODE => {
                let length = self.input.byte()?;
                self.push_string(length.into())
            }
            op::EMPTY_DICT => {
                let dict = self.open.open_dict().ok_or_else(|| self.too_deep())?;
                self.push(Value::OpenDict(dict))
            }
            op::EMPTY_LIST => {
                let list = self.open.open_list().ok_or_else(|| self.too_deep())?;
                self.push(Value::OpenList(list))
            }
            op::SETITEMS => self.set_items(),
            op::APPENDS => self.append_items(),
            _ => self.rare_step(),
        }
    }

    /// Opcodes that are rare in a snapshot.
    fn rare_step(&mut self) -> Result<(), SnapshotError> {
        match self.opcode {
            op::NONE | op::EMPTY_SET => self.push(Value::Opaque),
            op::NEWTRUE => self.push(Value::Int(1)),
            op::NEWFALSE => self.push(Value::Int(0)),
            op::EMPTY_TUPLE => self.push(Value::Stack(0)),
            op::TUPLE1 => self.tuple(1),
            op::TUPLE2 => self.tuple(2),
            op::TUPLE3 => self.tuple(3),
            op::TUPLE => {
                let base = self.pop_mark()?;
                self.tuple(self.stack.len() - base)
            }
            op::APPEND => self.append_item(),
            op::SETITEM => self.set_item(),
            op::LIST => self.list_of_items(),
            op::DICT => self.dict_of_items(),
            op::FROZENSET | op::ADDITEMS => {
                let base = self.pop_mark()?;
                self.drop_above(base)?;
                if self.opcode == op::FROZENSET { self.push(Value::Opaque) } else { Ok(()) }
            }
            op::POP => self.pop_item(),
            op::POP_MARK => {
                let base = self.pop_mark()?;
                self.drop_above(base)
            }
            op::DUP => {
                let top = *self.stack.last().ok_or_else(|| self.underflow())?;
                self.push(shared(top))
            }
            op::BINPUT => {
                let index = self.input.byte()?;
                self.put(index.into())
            }
            op::LONG_BINPUT => {
                let index = u32::from_le_bytes(self.input.array()?);
                self.put(index)
            }
            op::LONG4 => {
                let length = i32::from_le_bytes(self.input.array()?);
                let length = u64::try_from(length).map_err(|_| self.bad_argument())?;
                self.push_long(length)
            }
            op::BINFLOAT => self.skip_value(8),
            op::PROTO => self.protocol(),
            // The contents of a frame follow as if there were no frames.
            op::FRAME => self.input.take(8).map(|_| ()),
            _ => self.string_step(),
        }
    }

    fn string_step(&mut self) -> Result<(), SnapshotError> {
        match self.opcode {
            op::BINUNICODE => {
                let length = self.length4()?;
                self.push_string(length)
            }
            op::BINUNICODE8 => {
                let length = self.length8()?;
                self.push_string(length)
            }
            // Python 2 wrote its strings like this.
            op::SHORT_BINSTRING => {
                let length = self.input.byte()?;
                self.push_python2_string(length.into())
            }
            op::BINSTRING => {
                let length = i32::from_le_bytes(self.input.array()?);
                let length = u64::try_from(length).map_err(|_| self.bad_argument())?;
                self.push_python2_string(length)
            }
            op::SHORT_BINBYTES => {
                let length = self.input.byte()?;
                self.skip_value(length.into())
            }
            op::BINBYTES => {
                let length = self.length4()?;
                self.skip_value(length)
            }
            op::BINBYTES8 => {
                let length = self.length8()?;
                self.skip_value(length)
            }
            op::INT | op::LONG | op::FLOAT | op::STRING | op::UNICODE | op::GET | op::PUT => {
                self.line_step()
            }
            byte => Err(match op::runs_code(byte) {
                Some(opcode) => SnapshotError::AsksToRunCode { opcode, offset: self.offset },
                None => SnapshotError::UnknownOpcode { byte, offset: self.offset },
            }),
        }
    }

    /// Opcodes of protocol 0: their argument is the rest of the line.
    fn line_step(&mut self) -> Result<(), SnapshotError> {
        let bad = self.bad_argument();
        let line = self.input.line()?;
        let Ok(line) = std::str::from_utf8(line) else { return Err(bad) };
        let line = line.strip_suffix('\r').unwrap_or(line);
        let value = match self.opcode {
            op::INT | op::LONG => {
                let digits = line.strip_suffix('L').unwrap_or(line);
                op::decimal(digits).ok_or(bad)?.map_or(Value::Opaque, Value::Int)
            }
            op::FLOAT => line.parse::<f64>().map(|_| Value::Opaque).map_err(|_| bad)?,
            op::STRING => Value::String(self.contents.strings.intern(op::quoted(line).ok_or(bad)?)),
            op::UNICODE => Value::String(self.contents.strings.intern(&op::unescaped(line))),
            op::GET => {
                let index = line.parse().map_err(|_| bad)?;
                return self.get(index);
            }
            _ => {
                let index = line.parse().map_err(|_| bad)?;
                return self.put(index);
            }
        };
        self.push(value)
    }

    fn protocol(&mut self) -> Result<(), SnapshotError> {
        match self.input.byte()? {
            protocol if protocol > NEWEST_PROTOCOL => Err(SnapshotError::UnknownProtocol(protocol)),
            _ => Ok(()),
        }
    }

    fn length4(&mut self) -> Result<u64, SnapshotError> {
        Ok(u32::from_le_bytes(self.input.array()?).into())
    }

    fn length8(&mut self) -> Result<u64, SnapshotError> {
        Ok(u64::from_le_bytes(self.input.array()?))
    }

    /// An integer of any length. Torch writes none that does not fit 64 bits.
    #[inline]
    fn push_long(&mut self, length: u64) -> Result<(), SnapshotError> {
        match op::little_endian(self.input.take(length)?) {
            Some(number) => self.push(Value::Int(number)),
            None => self.push(Value::Opaque),
        }
    }

    #[inline]
    fn push_string(&mut self, length: u64) -> Result<(), SnapshotError> {
        let bytes = self.input.take(length)?;
        let string = match std::str::from_utf8(bytes) {
            Ok(text) => self.contents.strings.intern(text),
            // A file name may have half a surrogate pair, which Python writes as three bytes.
            Err(_) if op::is_utf8_with_surrogates(bytes) => {
                self.contents.strings.intern(&String::from_utf8_lossy(bytes))
            }
            Err(_) => return Err(self.bad_argument()),
        };
        self.push(Value::String(string))
    }

    fn push_python2_string(&mut self, length: u64) -> Result<(), SnapshotError> {
        let text = String::from_utf8_lossy(self.input.take(length)?);
        let string = self.contents.strings.intern(&text);
        self.push(Value::String(string))
    }

    fn skip_value(&mut self, length: u64) -> Result<(), SnapshotError> {
        self.input.take(length)?;
        self.push(Value::Opaque)
    }

    #[inline]
    pub(crate) fn push(&mut self, value: Value) -> Result<(), SnapshotError> {
        if self.stack.len() >= MOST_VALUES {
            return Err(self.too_deep());
        }
        self.stack.push(value);
        Ok(())
    }

    /// Pops the value on top, which must lie above the last mark.
    #[inline]
    pub(crate) fn pop(&mut self) -> Result<Value, SnapshotError> {
        if self.marks.last().is_some_and(|&mark| self.stack.len() <= mark) {
            return Err(self.underflow());
        }
        self.stack.pop().ok_or_else(|| self.underflow())
    }

    fn mark(&mut self) -> Result<(), SnapshotError> {
        if self.marks.len() >= MOST_MARKS {
            return Err(self.too_deep());
        }
        self.marks.push(self.stack.len());
        match self.stack.last() {
            Some(&Value::OpenDict(dict)) => self.simple_items(dict),
            Some(&Value::OpenList(list)) => self.simple_frames(list),
            _ => {}
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn pop_mark(&mut self) -> Result<usize, SnapshotError> {
        let base = self.marks.pop().ok_or_else(|| self.underflow())?;
        if base <= self.stack.len() { Ok(base) } else { Err(self.underflow()) }
    }

    fn drop_above(&mut self, base: usize) -> Result<(), SnapshotError> {
        while self.stack.len() > base {
            self.pop_closed()?;
        }
        Ok(())
    }

    fn pop_item(&mut self) -> Result<(), SnapshotError> {
        // The top may be a mark.
        if self.marks.last() == Some(&self.stack.len()) {
            self.marks.pop();
            return Ok(());
        }
        self.pop_closed().map(|_| ())
    }

    #[inline]
    fn get(&mut self, index: u32) -> Result<(), SnapshotError> {
        // An arm for each kind: a value that goes through memory first is slow to read back.
        match self.memo.get(index) {
            Some(Value::Frame(frame)) => self.push(Value::Frame(frame)),
            Some(Value::String(string)) => self.push(Value::String(string)),
            Some(Value::Stack(stack)) => self.push(Value::Stack(stack)),
            Some(value) => self.push(value),
            None => Err(self.missing_memo(index)),
        }
    }

    #[inline]
    fn put(&mut self, index: u32) -> Result<(), SnapshotError> {
        match self.stack.last() {
            Some(&top @ (Value::OpenDict(_) | Value::OpenList(_))) => {
                self.open.set_memo_index(top, index);
                self.memo.put(index, Value::Opaque);
            }
            Some(Value::String(string)) => self.memo.put(index, Value::String(*string)),
            Some(&value) => self.memo.put(index, value),
            None => return Err(self.underflow()),
        }
        Ok(())
    }

    /// Pops the value on top, and closes it if it is a dict or a list.
    pub(crate) fn pop_closed(&mut self) -> Result<Value, SnapshotError> {
        let mut value = self.pop()?;
        self.open.close(&mut value, &mut self.contents, &mut self.memo);
        Ok(value)
    }

    #[cold]
    fn missing_memo(&self, index: u32) -> SnapshotError {
        SnapshotError::MissingMemo { index: index.into(), offset: self.offset }
    }

    #[cold]
    pub(crate) fn too_deep(&self) -> SnapshotError {
        SnapshotError::TooDeep { offset: self.offset }
    }

    #[cold]
    pub(crate) fn underflow(&self) -> SnapshotError {
        SnapshotError::StackUnderflow { opcode: name(self.opcode), offset: self.offset }
    }

    #[cold]
    pub(crate) fn bad_argument(&self) -> SnapshotError {
        SnapshotError::BadArgument { opcode: name(self.opcode), offset: self.offset }
    }
}

/// A second reference to a value. An open dict or list has one reference only, so that none that contains itself is closed
/// twice.
fn shared(value: Value) -> Value {
    if matches!(value, Value::OpenDict(_) | Value::OpenList(_)) { Value::Opaque } else { value }
}
