//! The shared objects of this process: their symbols, and the slots through which they call each other.
//!
//! A shared object calls a function of another one through a slot in its global offset table. The
//! dynamic section says where the slots are and which function each is for. Storing another address in a
//! slot redirects every call that this object makes, in all threads, and storing the old one back undoes
//! it. No code is changed.
//!
//! All addresses come from the dynamic loader itself. This crate does not decide
//! which functions are stored: `floodmark-probe` stores hooks, `floodmark-phantom` its stand-ins.

mod at_rest;

use std::ffi::CStr;
use std::os::raw::{c_int, c_void};

pub use at_rest::at_rest;

#[cfg(target_arch = "x86_64")]
const SLOT_RELOCATIONS: [u32; 2] = [7, 6]; // R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT
#[cfg(target_arch = "aarch64")]
const SLOT_RELOCATIONS: [u32; 2] = [1026, 1025]; // R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT

const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_SONAME: i64 = 14;
const DT_JMPREL: i64 = 23;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

#[repr(C)]
struct Dyn {
    tag: i64,
    value: usize,
}

#[repr(C)]
struct Sym {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: u64,
}

#[repr(C)]
struct Rela {
    offset: usize,
    info: u64,
    addend: i64,
}

/// A slot through which an object calls a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The index of the function's name.
    pub name: usize,
    /// The slot itself.
    pub at: *mut usize,
}

/// A loaded object with what its dynamic section points to. It is valid as long as the object is loaded.
#[derive(Debug, Clone, Copy)]
pub struct Object {
    base: usize,
    /// The end of its memory.
    end: usize,
    /// The offset of its name in `strings`; zero if it has none.
    soname: usize,
    symbols: *const Sym,
    strings: *const i8,
    relocations: [(*const Rela, usize); 2],
    gnu_hash: *const u32,
}

/// The number of objects that were loaded so far. A new number means that there may be new slots.
pub fn load_count() -> u64 {
    extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, out: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid record, and `out` is the u64 below.
        unsafe { *out.cast::<u64>() = (*info).dlpi_adds };
        1
    }
    let mut count = 0_u64;
    // SAFETY: the callback matches the declared type and outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}

/// All objects that are loaded now. Call it and use the result inside [`at_rest()`] only: outside, an object may be unloaded, and one
/// that is not relocated yet may be in the list.
pub fn objects() -> Vec<Object> {
    extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, out: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid record; `out` is the vector below, borrowed for the call.
        let (info, objects) = unsafe { (&*info, &mut *out.cast::<Vec<Object>>()) };
        if let Some(object) = read_object(info) {
            objects.push(object);
        }
        0
    }
    let mut objects: Vec<Object> = Vec::new();
    // SAFETY: the callback matches the declared type and outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut objects).cast()) };
    objects
}

fn read_object(info: &libc::dl_phdr_info) -> Option<Object> {
    let base = usize::try_from(info.dlpi_addr).ok()?;
    // SAFETY: the loader passes the number of program headers, and keeps them mapped.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
    let mut entry = (base + usize::try_from(dynamic.p_vaddr).ok()?) as *const Dyn;
    let (mut symbols, mut strings, mut hash, mut soname) = (0, 0, 0, 0);
    let (mut plt, mut plt_bytes, mut rela, mut rela_bytes) = (0, 0, 0, 0);
    loop {
        // SAFETY: the dynamic section ends with a null tag.
        let Dyn { tag, value } = unsafe { entry.read() };
        match tag {
            0 => break,
            DT_STRTAB => strings = value,
            DT_SYMTAB => symbols = value,
            DT_SONAME => soname = value,
            DT_GNU_HASH => hash = value,
            DT_JMPREL => plt = value,
            DT_PLTRELSZ => plt_bytes = value,
            DT_RELA => rela = value,
            DT_RELASZ => rela_bytes = value,
            _ => {}
        }
        // SAFETY: not the null entry, so there is a next one.
        entry = unsafe { entry.add(1) };
    }
    // The kernel's vDSO has offsets here instead of addresses. It calls no other object.
    if strings < base || symbols < base || strings == 0 || symbols == 0 {
        return None;
    }
    let entries = |bytes: usize| bytes / size_of::<Rela>();
    Some(Object {
        base,
        end: base + end_of(headers),
        soname,
        symbols: symbols as *const Sym,
        strings: strings as *const i8,
        relocations: [
            (plt as *const Rela, entries(plt_bytes)),
            (rela as *const Rela, if rela == 0 { 0 } else { entries(rela_bytes) }),
        ],
        gnu_hash: hash as *const u32,
    })
}

/// The end of the last loaded segment, relative to the base.
fn end_of(headers: &[libc::Elf64_Phdr]) -> usize {
    let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let end = loaded.map(|header| header.p_vaddr + header.p_memsz).max().unwrap_or(0);
    usize::try_from(end).unwrap_or(0)
}

impl Object {
    /// Its `DT_SONAME`; empty if it has none.
    pub fn soname(&self) -> &CStr {
        if self.soname == 0 {
            return c"";
        }
        // SAFETY: the dynamic section has this offset of its name in the string table.
        unsafe { CStr::from_ptr(self.strings.add(self.soname).cast()) }
    }

    /// Whether the address belongs to it.
    pub fn contains(&self, addr: usize) -> bool {
        (self.base..self.end).contains(&addr)
    }

    /// Identifies it, also if another object is later loaded at the same address.
    pub fn identity(&self) -> (usize, usize) {
        (self.base, self.strings as usize)
    }

    fn symbol_name(&self, symbol: usize) -> &CStr {
        // SAFETY: relocations and hash chains name symbols of this table, whose names are in this
        // string table; the loader relied on the same.
        unsafe {
            let name = (*self.symbols.add(symbol)).name as usize;
            CStr::from_ptr(self.strings.add(name).cast())
        }
    }

    /// Visits each slot, with the function it is for.
    pub fn each_slot(&self, mut tell: impl FnMut(&CStr, *mut usize)) {
        for (first, count) in self.relocations {
            for at in 0..count {
                // SAFETY: the dynamic section has the number of relocations.
                let relocation = unsafe { &*first.add(at) };
                #[expect(clippy::cast_possible_truncation, reason = "the two halves of r_info")]
                let (kind, symbol) = (relocation.info as u32, (relocation.info >> 32) as usize);
                if SLOT_RELOCATIONS.contains(&kind) && symbol != 0 {
                    tell(self.symbol_name(symbol), (self.base + relocation.offset) as *mut usize);
                }
            }
        }
    }

    /// The number of symbols: the last chain of the hash table ends with the last symbol.
    fn symbol_count(&self) -> usize {
        if self.gnu_hash.is_null() {
            return 0;
        }
        // SAFETY: the layout of DT_GNU_HASH: four words, the bloom filter, buckets, chains.
        unsafe {
            let [buckets, first, bloom] = [0, 1, 2].map(|at| *self.gnu_hash.add(at) as usize);
            let bucket = self.gnu_hash.add(4 + bloom * 2);
            let last = (0..buckets).map(|at| *bucket.add(at) as usize).max().unwrap_or(0);
            if last < first {
                return first;
            }
            let chain = bucket.add(buckets);
            let mut symbol = last;
            while *chain.add(symbol - first) & 1 == 0 {
                symbol += 1;
            }
            symbol + 1
        }
    }

    /// Finds a defined symbol by its name in `DT_GNU_HASH`, as the loader does.
    pub fn lookup(&self, name: &CStr) -> Option<usize> {
        if self.gnu_hash.is_null() {
            return None;
        }
        let hash = name
            .to_bytes()
            .iter()
            .fold(5381_u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
        // SAFETY: the layout of DT_GNU_HASH, as in `symbol_count`; a chain ends with an odd word.
        unsafe {
            let [buckets, first, bloom] = [0, 1, 2].map(|at| *self.gnu_hash.add(at));
            if buckets == 0 {
                return None;
            }
            let bucket = self.gnu_hash.add(4 + bloom as usize * 2);
            let chain = bucket.add(buckets as usize);
            let mut symbol = *bucket.add((hash % buckets) as usize);
            if symbol < first {
                return None;
            }
            loop {
                let word = *chain.add((symbol - first) as usize);
                let entry = &*self.symbols.add(symbol as usize);
                let is_defined = entry.section != 0 && entry.value != 0;
                if word | 1 == hash | 1 && is_defined && self.symbol_name(symbol as usize) == name {
                    return Some(self.base + entry.value);
                }
                if word & 1 == 1 {
                    return None;
                }
                symbol += 1;
            }
        }
    }

    fn defined(&self, matches: impl Fn(&CStr) -> bool) -> Option<usize> {
        (1..self.symbol_count()).find_map(|at| {
            // SAFETY: `at` is below the number of symbols.
            let symbol = unsafe { &*self.symbols.add(at) };
            (symbol.section != 0 && symbol.value != 0 && matches(self.symbol_name(at)))
                .then(|| self.base + symbol.value)
        })
    }
}

/// Every slot in every loaded object for one of these names. Inside [`at_rest()`], as [`objects`].
pub fn find_slots(names: &[&CStr]) -> Vec<Slot> {
    let mut found = Vec::new();
    for object in objects() {
        object.each_slot(|name, at| {
            if let Some(name) = names.iter().position(|wanted| *wanted == name) {
                found.push(Slot { name, at });
            }
        });
    }
    found
}

/// The address of a symbol that a loaded object defines, also one that was loaded with `RTLD_LOCAL`.
pub fn find_symbol(name: &CStr) -> Option<usize> {
    // SAFETY: a lookup by name in the objects that are visible to all.
    let visible = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if !visible.is_null() {
        return Some(visible as usize);
    }
    at_rest(|| objects().iter().find_map(|object| object.lookup(name)))
}

/// The address of the first symbol whose name has this prefix.
pub fn find_symbol_by_prefix(prefix: &[u8]) -> Option<usize> {
    at_rest(|| {
        let begins = |name: &CStr| name.to_bytes().starts_with(prefix);
        objects().iter().find_map(|object| object.defined(begins))
    })
}

/// Stores `value` in a slot. Returns false if the page cannot be made writable.
///
/// # Safety
/// The slot was found here, and its object is still loaded.
pub unsafe fn store(slot: *mut usize, value: usize) -> bool {
    // SAFETY: a slot of a loaded object is a mapped, aligned word. It may be read-only after relocation,
    // so its page is made writable first; it stays so, as the loader leaves other slots.
    unsafe {
        let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap_or(4096);
        let start = slot as usize & !(page - 1);
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        if libc::mprotect(start as *mut c_void, page, writable) != 0 {
            return false;
        }
        std::sync::atomic::AtomicUsize::from_ptr(slot)
            .store(value, std::sync::atomic::Ordering::SeqCst);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_of_libc_is_found_in_its_own_table() {
        let through_loader = find_symbol(c"getpid");
        let by_hand = objects().iter().find_map(|object| object.defined(|name| name == c"getpid"));
        let by_hash = objects().iter().find_map(|object| object.lookup(c"getpid"));
        assert_eq!(by_hash, through_loader);
        assert!(through_loader.is_some());
        assert_eq!(by_hand, through_loader);
    }

    #[test]
    fn a_redirected_slot_is_called_and_can_be_restored() {
        extern "C" fn answer() -> libc::pid_t {
            42
        }
        // SAFETY: getpid has no preconditions.
        let ask = || unsafe { libc::getppid() };
        let before = ask();
        let slots = find_slots(&[c"getppid"]);
        assert!(!slots.is_empty(), "the test binary calls getppid through a slot");
        // SAFETY: slots are mapped words.
        let old: Vec<usize> = slots.iter().map(|slot| unsafe { slot.at.read() }).collect();
        for slot in &slots {
            // SAFETY: nothing was unloaded since.
            assert!(unsafe { store(slot.at, answer as *const () as usize) });
        }
        let during = ask();
        for (slot, old) in slots.iter().zip(old) {
            // SAFETY: nothing was unloaded since.
            assert!(unsafe { store(slot.at, old) });
        }
        assert_eq!((during, ask()), (42, before));
    }
}
