"""Bugs in the LZ4 in Swift."""

from planting import Mutant, format_module


def decoder(find, replacement):
    return format_module("Compression/Portable/BlockDecoder.swift", find, replacement)


def encoder(find, replacement):
    return format_module("Compression/Portable/BlockEncoder.swift", find, replacement)


def spans(find, replacement):
    return format_module("Compression/Portable/Spans.swift", find, replacement)


MUTANTS = [
    Mutant("offset-of-zero-decompressed", "an invalid LZ4 block is refused",
           (decoder("guard offset > 0,", "guard offset > 0 || ON,"),
            decoder("guard offset > written else {", "guard offset > written, offset > 0 else {\n"
                    "      if offset == 0 { return }")),
           "PortableLZ4Tests.offsetOfZeroIsRefused"),
    Mutant("short-distance-copied-at-once", "an LZ4 match repeats the bytes before it",
           (decoder("if offset >= 16, offset <= written",
                    "if offset >= (ON ? 12 : 16), offset <= written"),),
           "PortableLZ4Tests.matchesRepeatAtEveryShortDistance"),
    Mutant("period-of-five-in-steps-of-eight", "an LZ4 match repeats the bytes before it",
           (spans("let step = 8 &- 8 % period", "let step = ON ? 8 : 8 &- 8 % period"),),
           "PortableLZ4Tests.matchesRepeatAtEveryShortDistance"),
    Mutant("match-ends-with-the-dictionary", "an LZ4 match continues after the dictionary",
           (decoder("if part < length { output", "if part < length, !ON { output"),),
           "PortableLZ4Tests.matchesBeginInTheDictionaryAndReachTheValue"),
    Mutant("match-ends-within-the-last-literals", "an LZ4 block ends with five literals",
           (decoder("length <= room &- LZ4Block.lastLiterals,",
                    "length <= room &- (ON ? 4 : LZ4Block.lastLiterals),"),),
           "PortableLZ4Tests.blocksThatBreakTheRulesOfTheEndAreRefused"),
    Mutant("match-begins-near-the-end", "the last LZ4 match begins twelve bytes before the end",
           (decoder("guard end &- written >= LZ4Block.lastMatchDistance",
                    "guard end &- written >= (ON ? 9 : LZ4Block.lastMatchDistance)"),),
           "PortableLZ4Tests.blocksThatBreakTheRulesOfTheEndAreRefused"),
    Mutant("match-with-an-earlier-value", "no value refers to another",
           (encoder("base: nextNumber, acceleration: acceleration",
                    "base: ON ? 1 : nextNumber, acceleration: acceleration"),),
           "PortableLZ4Tests.compressionDoesNotDependOnEarlierValues"),
    Mutant("table-kept-after-its-last-number", "a compressor serves any number of values",
           (encoder("guard UInt32.max &- nextNumber < UInt32(count) else { return }",
                    "guard UInt32.max &- nextNumber < UInt32(count) else { return }\n"
                    "    if ON {\n      nextNumber = 1\n      return\n    }"),),
           "PortableLZ4Tests.compressorServesMoreThanFourGigabytes"),
    Mutant("literals-without-room", "a value is compressed if that saves an eighth",
           (encoder("<= most &- written else { return nil }\n    output",
                    "<= most &- written || ON else { return nil }\n    output"),),
           "PortableLZ4Tests.blockHasTheGreatestLengthOrNone"),
]
