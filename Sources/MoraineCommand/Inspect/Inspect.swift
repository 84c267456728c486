import ArgumentParser
import Foundation
import Moraine
import MoraineFormat

struct Inspect: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Shows the contents of a store's files and their offsets.",
    discussion: """
      Without options: the manifest and the list of segments. With --segment N: the
      header of that segment, then each record on a line, damaged ranges included.
      The names of the fields are those of the page about the file format. The files
      are read without opening the store, so the command also works for a store that
      does not open (but not for a segment whose own header is damaged), and while
      programs use the store. With --json each line is an object.

      --svg FILE draws the store: a bar for each segment, as long as the segment,
      dark where records are live and light where they are garbage. For the drawing
      the store is opened, and read completely.

        moraine inspect users.moraine --segment 3 | less
        moraine inspect users.moraine --svg users.svg
      """)
  @OptionGroup var store: StoreOptions
  @Option(help: "Show the records of this segment.") var segment: UInt64?
  @Option(help: "Draw the store into this file.", completion: .file(extensions: ["svg"]))
  var svg: String?
  @Flag(help: "Print JSON Lines.") var json = false

  func validate() throws {
    if segment != nil, svg != nil {
      throw ValidationError("--segment and --svg exclude each other")
    }
    if svg != nil, json { throw ValidationError("--svg and --json exclude each other") }
  }

  func run() async throws {
    if let svg { return try await draw(into: svg) }
    let directory = URL(fileURLWithPath: store.directory)
    if let segment {
      let name = SegmentNumber(rawValue: segment).fileName
      let bytes = try read(directory.appendingPathComponent(name))
      return try SegmentListing(bytes: bytes, name: name, json: json).print()
    }
    let bytes = try read(directory.appendingPathComponent(Manifest.fileName))
    let manifest = try decoded(bytes, Manifest.fileName) { try Manifest(decoding: $0) }
    try ManifestListing(manifest: manifest, json: json).print()
  }

  private func read(_ url: URL) throws -> [UInt8] {
    do {
      return [UInt8](try Data(contentsOf: url))
    } catch CocoaError.fileReadNoSuchFile, CocoaError.fileNoSuchFile {
      throw Failure.usage("the file \(url.path) does not exist")
    } catch {
      throw Failure("read \(url.path)", error)
    }
  }

  private func draw(into path: String) async throws {
    let segments = try await store.reading { store in
      try await store.segmentLiveness(partCount: LivenessPicture.partCount)
    }
    let text = LivenessPicture(segments: segments).svg
    do {
      try Data(text.utf8).write(to: URL(fileURLWithPath: path))
    } catch {
      throw Failure("write \(path)", error)
    }
  }
}
