import ArgumentParser
import Foundation
import Moraine
import MoraineFormat

struct Inspect: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Shows what lies in a store's files, and where.",
    discussion: """
      Without options: the manifest and the segments. With --segment N the header of
      that segment and each record in it, one a line, damaged places included; the
      fields are called as in the format's page. Nothing is opened as a store, so
      this works where a store does not open (but not for a segment whose own header
      is damaged), and beside programs that use the store. With --json each line is
      an object.

      --svg FILE draws the store: a bar for each segment, as long as it is, dark
      where its records are live and light where they are garbage. For that it is
      opened, and read as a whole.

        moraine inspect users.moraine --segment 3 | less
        moraine inspect users.moraine --svg users.svg
      """)
  @OptionGroup var store: StoreOptions
  @Option(help: "This segment's records.") var segment: UInt64?
  @Option(help: "Draw the store into this file.", completion: .file(extensions: ["svg"]))
  var svg: String?
  @Flag(help: "JSON Lines.") var json = false

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
      throw Failure.usage("there is no \(url.path)")
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
