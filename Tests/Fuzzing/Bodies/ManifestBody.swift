import MoraineEngine
import MoraineFormat

/// A manifest: a manifest that can be read is written again and read as the same manifest; a sound
/// store with that manifest opens or throws an error.
enum ManifestBody {
  private static let isUntouched = FuzzFlags(rawValue: 1)
  private static let isOpened = FuzzFlags(rawValue: 2)
  private static let isPositional = FuzzFlags(rawValue: 4)

  static func run(_ input: inout FuzzInput) async throws {
    let flags = FuzzFlags(&input)
    var bytes = input.rest()
    if !flags.contains(isUntouched) { mend(&bytes) }
    try checkCoding(bytes)
    guard flags.contains(isOpened) else { return }
    var files = try FixtureStore.files()
    files[Manifest.fileName] = bytes
    files[FixtureStore.checkpointName] = nil
    try await StoreProbe.run(
      files, .fuzzing(flags.contains(isPositional) ? .positional : .mapped),
      keys: FixtureStore.keys)
  }

  private static func mend(_ bytes: inout [UInt8]) {
    guard bytes.count >= 16 else { return }
    bytes.store(UInt32(bytes.count), at: 12)
    bytes.store(Checksum.of(Array(bytes.dropLast(4))), at: bytes.count - 4)
  }

  private static func checkCoding(_ bytes: [UInt8]) throws(Finding) {
    guard let manifest = decoded(bytes) else { return }
    let again = manifest.encoded()
    try require(decoded(again) == manifest, "written and read again it says something else")
    try require(decoded(again)?.encoded() == again, "written twice it is two things")
  }

  private static func decoded(_ bytes: [UInt8]) -> Manifest? {
    do { return try bytes.withExactBytes { try Manifest(decoding: $0) } } catch { return nil }
  }
}
