//! What examples/masks.c does, in Rust: reads a vocabulary, a grammar, and commands; prints the mask after each.
//!
//!     rustc -O examples/masks.rs -L FOLDER -l stackmask     (FOLDER holds libstackmask.so; see docs/kernel.md)
//!     ./masks VOCABULARY GRAMMAR                            commands on stdin: t ID, b HEX, r N, f
//!
//! The functions are declared by hand, as in pda/kernel/c/stackmask.h; a status of 0 is success, 1 a token that is not allowed.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::fmt::Write;
use std::io::BufRead;
use std::{env, fs, io, process, ptr};

#[repr(C)]
struct Bytes {
    data: *const u8,
    size: usize,
}
type Object = *mut c_void; // a vocabulary, a grammar or a matcher
type Status = c_int;

extern "C" {
    fn stackmask_version() -> u32;
    fn stackmask_error() -> *const c_char;
    fn stackmask_vocabulary_new(
        tokens: *const Bytes, count: usize, size: usize, stop: *const u32, stop_count: usize,
        special: *const u32, special_count: usize, fingerprint: *const c_char, made: *mut Object,
    ) -> Status;
    fn stackmask_vocabulary_free(vocabulary: Object);
    fn stackmask_vocabulary_words(vocabulary: Object) -> usize;
    fn stackmask_grammar_new(vocabulary: Object, bytes: *const u8, size: usize, limits: *const c_void, made: *mut Object) -> Status;
    fn stackmask_grammar_free(grammar: Object);
    fn stackmask_matcher_new(grammar: Object, made: *mut Object) -> Status;
    fn stackmask_matcher_fork(matcher: Object, made: *mut Object) -> Status;
    fn stackmask_matcher_free(matcher: Object);
    fn stackmask_matcher_fill(matcher: Object, mask: *mut u32, words: usize) -> Status;
    fn stackmask_matcher_accept_token(matcher: Object, token: u32) -> Status;
    fn stackmask_matcher_accept_bytes(matcher: Object, bytes: *const u8, size: usize) -> Status;
    fn stackmask_matcher_rollback(matcher: Object, steps: usize) -> Status;
    fn stackmask_matcher_steps(matcher: Object) -> usize;
    fn stackmask_matcher_is_completed(matcher: Object, is_completed: *mut c_int) -> Status;
    fn stackmask_matcher_is_terminated(matcher: Object, is_terminated: *mut c_int) -> Status;
    fn stackmask_matcher_forced_bytes(matcher: Object, buffer: *mut u8, capacity: usize, size: *mut usize) -> Status;
}

/// Ends the program with the library's message where a call failed.
fn check(status: Status) {
    if status > 1 {
        eprintln!("{}", unsafe { CStr::from_ptr(stackmask_error()) }.to_string_lossy());
        process::exit(2);
    }
}

/// The next number of the file of the vocabulary, which is trusted.
fn number(data: &mut &[u8]) -> u32 {
    let (first, rest) = data.split_at(4);
    *data = rest;
    u32::from_le_bytes(first.try_into().unwrap())
}

fn show(matcher: Object, mask: &mut [u32]) {
    let (mut ends, mut over, mut forced, mut text, mut line) = (0, 0, 0, [0u8; 256], String::new());
    unsafe {
        check(stackmask_matcher_fill(matcher, mask.as_mut_ptr(), mask.len()));
        check(stackmask_matcher_is_completed(matcher, &mut ends));
        check(stackmask_matcher_is_terminated(matcher, &mut over));
        check(stackmask_matcher_forced_bytes(matcher, text.as_mut_ptr(), text.len(), &mut forced));
    }
    mask.iter().for_each(|word| write!(line, "{word:08x}").unwrap());
    write!(line, " {ends} {over} {} ", unsafe { stackmask_matcher_steps(matcher) }).unwrap();
    text[..forced.min(256)].iter().for_each(|byte| write!(line, "{byte:02x}").unwrap());
    println!("{line}");
}

fn main() {
    let names: Vec<String> = env::args().skip(1).collect();
    assert_eq!(unsafe { stackmask_version() } / 1000, 1);
    let (file, bytes) = (fs::read(&names[0]).unwrap(), fs::read(&names[1]).unwrap());
    let mut rest = &file[..];
    let (count, stops) = (number(&mut rest) as usize, number(&mut rest));
    let stop: Vec<u32> = (0..stops).map(|_| number(&mut rest)).collect();
    let tokens: Vec<Bytes> = (0..count)
        .map(|_| {
            let size = number(&mut rest) as usize;
            let (token, behind) = rest.split_at(size);
            rest = behind;
            Bytes { data: token.as_ptr(), size }
        })
        .collect();

    let (mut vocabulary, mut grammar, mut matcher) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    let mut mask;
    unsafe {
        check(stackmask_vocabulary_new(
            tokens.as_ptr(), count, count, stop.as_ptr(), stop.len(), ptr::null(), 0, ptr::null(), &mut vocabulary,
        ));
        check(stackmask_grammar_new(vocabulary, bytes.as_ptr(), bytes.len(), ptr::null(), &mut grammar));
        check(stackmask_matcher_new(grammar, &mut matcher));
        mask = vec![0u32; stackmask_vocabulary_words(vocabulary)];
        stackmask_vocabulary_free(vocabulary); // the grammar keeps it
        stackmask_grammar_free(grammar);
    }
    show(matcher, &mut mask);
    for line in io::stdin().lock().lines().map(Result::unwrap) {
        let rest = line.get(2..).unwrap_or("");
        match line.as_bytes().first() {
            Some(b't') => check(unsafe { stackmask_matcher_accept_token(matcher, rest.parse().unwrap()) }),
            Some(b'r') => check(unsafe { stackmask_matcher_rollback(matcher, rest.parse().unwrap()) }),
            Some(b'b') => {
                let text: Vec<u8> = (0..rest.len() / 2).map(|i| u8::from_str_radix(&rest[2 * i..2 * i + 2], 16).unwrap()).collect();
                check(unsafe { stackmask_matcher_accept_bytes(matcher, text.as_ptr(), text.len()) });
            }
            Some(b'f') => unsafe {
                let mut copy = ptr::null_mut();
                check(stackmask_matcher_fork(matcher, &mut copy));
                stackmask_matcher_free(matcher);
                matcher = copy;
            },
            _ => {}
        }
        show(matcher, &mut mask);
    }
    unsafe { stackmask_matcher_free(matcher) };
}
