import Foundation
import SystemPackage

/// A reader of the lines of a stream. It holds one line in memory at a time.
struct LineReader: ~Copyable {
  enum Line: Equatable {
    /// A line without its end: `\n`, `\r\n` or the end of the stream.
    case bytes([UInt8])
    /// A line longer than the limit. It was read to its end and dropped.
    case tooLong
  }

  private let descriptor: FileDescriptor
  private let isOwned: Bool
  private let limitBytes: Int
  private var chunk = [UInt8](repeating: 0, count: 256 << 10)
  private var next = 0
  private var end = 0
  /// Bytes read from the stream so far.
  private(set) var readBytes: UInt64 = 0
  /// Whether the line that ``read()`` returned last had an end. The rest of a stream that ended
  /// within a line has none: its writer may have been killed before it had written the whole line.
  private(set) var lastLineHasEnd = true
  /// Length of the stream from its start position; nil if it is not known, as for a pipe.
  let totalBytes: UInt64?

  /// - Parameter isOwned: whether the reader closes the descriptor in its `deinit`.
  init(_ descriptor: FileDescriptor, limitBytes: Int, isOwned: Bool = false) {
    self.descriptor = descriptor
    self.isOwned = isOwned
    self.limitBytes = limitBytes
    totalBytes = Self.length(descriptor)
  }

  deinit {
    guard isOwned else { return }
    do { try descriptor.close() } catch { Output.error("cannot close the input: \(error)") }
  }

  /// Returns nil if the descriptor cannot seek.
  private static func length(_ descriptor: FileDescriptor) -> UInt64? {
    do {
      let here = try descriptor.seek(offset: 0, from: .current)
      let end = try descriptor.seek(offset: 0, from: .end)
      try descriptor.seek(offset: here, from: .start)
      return end > here ? UInt64(end - here) : nil
    } catch {
      return nil
    }
  }

  /// Returns the next line, or nil at the end. Blocks until a whole line was read.
  mutating func read() throws -> Line? {
    var line: [UInt8] = []
    var isTooLong = false
    while true {
      if next == end {
        end = try chunk.withUnsafeMutableBytes { try descriptor.read(into: $0) }
        next = 0
        readBytes += UInt64(end)
        if end == 0 {
          guard isTooLong || !line.isEmpty else { return nil }
          lastLineHasEnd = false
          return whole(line, isTooLong)
        }
      }
      let newline = newlineAhead()
      let part = chunk[next..<(newline ?? end)]
      // One byte more than the limit, for a `\r`, which does not count.
      if isTooLong || line.count + part.count > limitBytes + 1 {
        isTooLong = true
        line = []
      } else {
        line.append(contentsOf: part)
      }
      next = newline.map { $0 + 1 } ?? end
      if newline != nil {
        lastLineHasEnd = true
        return whole(line, isTooLong)
      }
    }
  }

  private func whole(_ line: consuming [UInt8], _ isTooLong: Bool) -> Line {
    if line.last == UInt8(ascii: "\r") { line.removeLast() }
    return isTooLong || line.count > limitBytes ? .tooLong : .bytes(line)
  }

  private func newlineAhead() -> Int? {
    chunk.withUnsafeBytes { bytes in
      memchr(bytes.baseAddress! + next, 10, end - next).map { bytes.baseAddress!.distance(to: $0) }
    }
  }
}
