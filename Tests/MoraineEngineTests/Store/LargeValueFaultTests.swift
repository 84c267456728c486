import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Large values on a disk that fails for a moment.
@Suite struct LargeValueFaultTests {
  /// The piece is not part of the value, and the bytes after it would take its place.
  @Test func writerThatCouldNotWriteAPieceNeverCommits() async throws {
    let storage = FaultStorage(MemoryStorage())
    let configuration = Store.Configuration.testing(ioMode: .positional)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let films = try store.largeValues(named: "films")
    var random = SeededGenerator(seed: 1)
    let piece = (0..<LargeValues.pieceBytes).map { _ in
      UInt8.random(in: .min ... .max, using: &random)
    }
    var writer = try await films.writer(forKey: "one")
    try await writer.append(piece)
    storage.setScript { event in
      event.operation == .write && event.file.hasSuffix(".segment") ? .fail(.ioError) : nil
    }
    var codes: [StoreError.Code] = []
    do throws(StoreError) { try await writer.append(piece) } catch { codes.append(error.code) }
    storage.setScript(nil)
    do throws(StoreError) { try await writer.append([1]) } catch { codes.append(error.code) }
    do throws(StoreError) { try await writer.commit() } catch { codes.append(error.code) }
    #expect(codes == [.io, .io, .io])
    #expect(try await films.value(forKey: "one") == nil)
    #expect(try await films.pieces.count() == 0, "the pieces of the value were removed")
    try await store.close()
  }
}
