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
      A torn range is no damage: the end of a write that was interrupted, and never
      acknowledged as durable. The names of the fields are those of the page about
      the file format. The files are read without opening the store, so the command
      also works for a store that does not open (but not for a segment whose own
      header is damaged), and while programs use the store. With --json each line is
      an object.

      --svg FILE draws the store: a bar for each segment, as long as the segment,
      dark where records are live and light where they are garbage; a bar for each
      keyspace, with the indexes of its models; and for each ordered keyspace the
      places in the log that its keys lead to, which a scan reads from. For the
      drawing the store is opened, and read completely.

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
      let tornFrom = tornFrom(SegmentNumber(rawValue: segment))
      return try SegmentListing(bytes: bytes, name: name, json: json, tornFrom: tornFrom).print()
    }
    try ManifestListing(manifest: try store.manifest(), json: json).print()
  }

  /// Returns the offset from which a write to the segment may have been torn, which is no damage;
  /// nil unless the segment is the one that the store appends to.
  private func tornFrom(_ number: SegmentNumber) -> UInt64? {
    let manifest: Manifest
    do { manifest = try store.manifest() } catch {
      // Without a manifest no end is known to be torn, and each gap counts as damage.
      return nil
    }
    guard let last = manifest.segments.last, last.number == number, !last.isSealed else {
      return nil
    }
    return manifest.watermarkSegment == number.rawValue ? manifest.watermarkOffset : 0
  }

  private func draw(into path: String) async throws {
    try Drawing.checkWritable(path)
    let manifest = try store.manifest()
    try await store.reading { store in try await StorePicture(store, manifest) }.write(to: path)
  }
}

extension StoreOptions {
  /// Reads the manifest, without opening the store.
  func manifest() throws -> Manifest {
    let url = URL(fileURLWithPath: directory).appendingPathComponent(Manifest.fileName)
    return try decoded(try read(url), Manifest.fileName) { try Manifest(decoding: $0) }
  }
}

/// Reads a file of a store.
private func read(_ url: URL) throws -> [UInt8] {
  do {
    return [UInt8](try Data(contentsOf: url))
  } catch CocoaError.fileReadNoSuchFile, CocoaError.fileNoSuchFile {
    throw Failure.usage("the file \(url.path) does not exist")
  } catch {
    throw Failure("read \(url.path)", error)
  }
}
