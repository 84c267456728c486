import MoraineFormat
import Testing

@testable import MoraineEngine

/// Manifests that no reader accepts. Each would replace one that readers accept.
@Suite struct UnreadableManifestTests {
  private static var manifest: Manifest {
    var manifest = Manifest(
      storeID: StoreIdentifier(low: 1, high: 2), instanceID: StoreIdentifier(low: 3, high: 4),
      hashKey: HashKey(k0: 5, k1: 6))
    manifest.lastSequence = SequenceNumber(rawValue: 10)
    manifest.feedHorizon = SequenceNumber(rawValue: 10)
    manifest.addCut(after: SequenceNumber(rawValue: 10), id: 7)
    return manifest
  }

  private static func code(_ manifest: Manifest) -> StoreError.Code? {
    do throws(StoreError) { try manifest.checkCounters() } catch { return error.code }
    return nil
  }

  @Test func manifestWhoseFiguresLieAfterTheLogIsNotPublished() throws {
    #expect(Self.code(Self.manifest) == nil)
    var horizon = Self.manifest
    horizon.feedHorizon = SequenceNumber(rawValue: 11)
    var cut = Self.manifest
    cut.addCut(after: SequenceNumber(rawValue: 11), id: 8)
    for manifest in [horizon, cut] {
      #expect(Self.code(manifest) == .corrupted)
      #expect(throws: FormatError.self) {
        try manifest.encoded().withUnsafeBytes { try Manifest(decoding: $0) }
      }
    }
  }
}
