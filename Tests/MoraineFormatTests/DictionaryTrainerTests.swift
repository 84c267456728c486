import MoraineFormat
import Testing

@Suite("Dictionary training") struct DictionaryTrainerTests {
  private func train(_ values: [[UInt8]], total: Int? = nil) -> [UInt8]? {
    var trainer = DictionaryTrainer()
    for value in values { value.withUnsafeBytes { trainer.add($0) } }
    return trainer.train(totalValueBytes: total ?? values.reduce(0) { $0 + $1.count })
  }

  /// The stored bytes of the values, including the dictionary.
  private func stored(_ values: [[UInt8]], dictionary: [UInt8]) -> Int {
    var compressor = DictionaryCompressor(dictionary: dictionary)
    return values.reduce(dictionary.count) { sum, value in
      sum + (value.withUnsafeBytes { compressor.compress($0)?.count } ?? value.count)
    }
  }

  @Test func similarDocumentsGetADictionaryThatPays() throws {
    let dictionary = try #require(train(Documents.users(count: 5000, seed: 30)))
    #expect(dictionary.count <= 65_536)
    // Values the trainer has not seen.
    let others = Documents.users(count: 5000, seed: 31)
    let raw = others.reduce(0) { $0 + $1.count }
    #expect(stored(others, dictionary: dictionary) * 2 < raw)
    #expect(
      stored(others, dictionary: []) * 10 > raw * 9, "without a dictionary they would not shrink")
  }

  @Test func theMostUsefulBytesStandLast() throws {
    let values = Documents.users(count: 5000, seed: 32)
    let dictionary = try #require(train(values))
    let end = stored(values, dictionary: Array(dictionary.suffix(1024)))
    let beginning = stored(values, dictionary: Array(dictionary.prefix(1024)))
    #expect(end < beginning)
  }

  @Test func trainingIsDeterministic() throws {
    let values = Documents.users(count: 20_000, seed: 33)
    let dictionary = try #require(train(values))
    #expect(train(values) == dictionary)
  }

  @Test func skippingUnwantedValuesChangesNothing() throws {
    let values = Documents.users(count: 30_000, seed: 34)
    var trainer = DictionaryTrainer()
    var skipped = 0
    for value in values {
      if trainer.wantsNext {
        value.withUnsafeBytes { trainer.add($0) }
      } else {
        trainer.skip()
        skipped += 1
      }
    }
    #expect(skipped > values.count / 4)
    let total = values.reduce(0) { $0 + $1.count }
    #expect(trainer.train(totalValueBytes: total) == train(values))
  }

  @Test func noiseGetsNoDictionary() {
    var generator = SeededGenerator(seed: 35)
    #expect(train((0..<2000).map { _ in generator.bytes(700) }) == nil)
    #expect(train((0..<300).map { _ in generator.bytes(20_000) }) == nil)
  }

  @Test func valuesThatShrinkWithoutADictionaryGetNone() {
    var generator = SeededGenerator(seed: 36)
    let values = (0..<500).map { _ in
      Array(repeatElement(generator.bytes(16), count: 250).joined())
    }
    #expect(train(values) == nil)
  }

  @Test func tooFewOrTooShortValuesGetNoDictionary() {
    let document = Documents.users(count: 1, seed: 37)
    #expect(train([]) == nil)
    #expect(train([[]]) == nil)
    #expect(train(document) == nil)
    #expect(train(Array(repeating: [], count: 100_000)) == nil)
    for length in 1...23 {
      let values = [[UInt8]](repeating: Array(repeating: 7, count: length), count: 3000)
      #expect(train(values) == nil, "\(length) bytes are stored raw")
    }
  }

  @Test func aSmallTotalDoesNotPayForADictionary() {
    let values = Documents.users(count: 5000, seed: 38)
    #expect(train(values, total: 4000) == nil)
    #expect(train(values, total: 0) == nil)
    #expect(train(values, total: 1 << 30) != nil)
  }

  @Test func valuesThatAlternateAreAllSampled() throws {
    // Every fourth value is a user and the rest is noise; and the other way round.
    var generator = SeededGenerator(seed: 39)
    let users = Documents.users(count: 16_000, seed: 40)
    for period in [2, 4, 8] {
      let values = users.enumerated().map { index, user in
        index % period == 1 ? user : generator.bytes(100)
      }
      let dictionary = try #require(train(values), "one of \(period)")
      #expect(stored(users, dictionary: dictionary) < stored(users, dictionary: []) / 2)
    }
  }

  @Test func memoryIsBounded() {
    var trainer = DictionaryTrainer()
    var generator = SeededGenerator(seed: 41)
    let noise = generator.bytes(1 << 20)
    var most = 0
    for _ in 0..<3000 {
      let length = Int.random(in: 0...noise.count, using: &generator)
      noise.withUnsafeBytes { trainer.add(UnsafeRawBufferPointer(rebasing: $0[..<length])) }
      most = max(most, trainer.sampleBytes)
    }
    #expect(most <= DictionaryTrainer.sampleLimitBytes)
    #expect(most > DictionaryTrainer.sampleLimitBytes / 2, "the dictionary is used")
  }
}
