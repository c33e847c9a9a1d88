//! Opcodes that put values into tuples, lists and dicts.

use crate::contents::value::Value;
use crate::error::SnapshotError;
use crate::pickle::input::PickleInput;
use crate::unpickler::Unpickler;

impl<S: PickleInput> Unpickler<S> {
    pub(crate) fn tuple(&mut self, length: usize) -> Result<(), SnapshotError> {
        let mut last_two = [Value::Opaque; 2];
        for at in 0..length {
            let value = self.pop_closed()?;
            if let Some(slot) = last_two.get_mut(at) {
                *slot = value;
            }
        }
        let value = match (length, last_two) {
            (0, _) => Value::Stack(0),
            (2, [Value::Int(second), Value::Int(first)]) => self.contents.add_pool((first, second)),
            _ => Value::Opaque,
        };
        self.push(value)
    }

    pub(crate) fn append_item(&mut self) -> Result<(), SnapshotError> {
        let value = self.pop_closed()?;
        let target = *self.stack.last().ok_or_else(|| self.underflow())?;
        if let Value::OpenList(list) = target {
            self.open.append_all(list, &[value], &mut self.contents);
        } else if !target.is_opaque() {
            return Err(self.bad_argument());
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn append_items(&mut self) -> Result<(), SnapshotError> {
        let base = self.pop_mark()?;
        let target = base.checked_sub(1).and_then(|at| self.stack.get(at)).copied();
        let target = target.ok_or_else(|| self.underflow())?;
        self.close_above(base);
        self.append_above(base, target)
    }

    /// Closes all dicts and lists of the stack from `base` on.
    #[inline]
    fn close_above(&mut self, base: usize) {
        for value in self.stack.iter_mut().skip(base) {
            if let Value::OpenDict(_) | Value::OpenList(_) = value {
                self.open.close(value, &mut self.contents, &mut self.memo);
            }
        }
    }

    #[inline]
    fn append_above(&mut self, base: usize, target: Value) -> Result<(), SnapshotError> {
        if let Value::OpenList(list) = target {
            self.open.append_all(list, &self.stack[base..], &mut self.contents);
        } else if !target.is_opaque() {
            // An opaque target is a list that refers to itself. Torch writes none.
            return Err(self.bad_argument());
        }
        self.stack.truncate(base);
        Ok(())
    }

    pub(crate) fn list_of_items(&mut self) -> Result<(), SnapshotError> {
        let base = self.pop_mark()?;
        let list = Value::OpenList(self.open.open_list().ok_or_else(|| self.too_deep())?);
        self.close_above(base);
        self.append_above(base, list)?;
        self.push(list)
    }

    pub(crate) fn set_item(&mut self) -> Result<(), SnapshotError> {
        let value = self.pop_closed()?;
        let key = self.pop_closed()?;
        let target = *self.stack.last().ok_or_else(|| self.underflow())?;
        if let Value::OpenDict(dict) = target {
            self.open.set_all(dict, &[key, value]);
        } else if !target.is_opaque() {
            return Err(self.bad_argument());
        }
        Ok(())
    }

    /// Sets all items of a dict and closes it: picklers set them at once.
    #[inline]
    pub(crate) fn set_items(&mut self) -> Result<(), SnapshotError> {
        let base = self.pop_mark()?;
        let target = base.checked_sub(1).and_then(|at| self.stack.get(at)).copied();
        let target = target.ok_or_else(|| self.underflow())?;
        self.set_above(base, target)?;
        if let Some(complete) = self.stack.last_mut() {
            self.open.close(complete, &mut self.contents, &mut self.memo);
        }
        Ok(())
    }

    #[inline]
    fn set_above(&mut self, base: usize, target: Value) -> Result<(), SnapshotError> {
        if (self.stack.len() - base) % 2 == 1 {
            return Err(self.underflow());
        }
        self.close_above(base);
        if let Value::OpenDict(dict) = target {
            self.open.set_all(dict, &self.stack[base..]);
        } else if !target.is_opaque() {
            return Err(self.bad_argument());
        }
        self.stack.truncate(base);
        Ok(())
    }

    pub(crate) fn dict_of_items(&mut self) -> Result<(), SnapshotError> {
        let base = self.pop_mark()?;
        let dict = Value::OpenDict(self.open.open_dict().ok_or_else(|| self.too_deep())?);
        self.set_above(base, dict)?;
        self.push(dict)
    }
}
