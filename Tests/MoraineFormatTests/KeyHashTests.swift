import MoraineFormat
import Testing

@Suite("Key hash and digest") struct KeyHashTests {
  /// The bytes 0, 1, ... 15, as in the appendix of the SipHash paper.
  private static let secret = HashKey(k0: 0x0706_0504_0302_0100, k1: 0x0F0E_0D0C_0B0A_0908)

  /// SipHash-1-3 of the first n of the bytes 0, 1, 2, ... From a program in Python that gave the
  /// paper's 0xA129CA6149BE45E5 when set to the rounds of SipHash-2-4.
  private static let answers: [UInt64] = [
    0xABAC_0158_050F_C4DC, 0xC9F4_9BF3_7D57_CA93, 0x82CB_9B02_4DC7_D44D, 0x8BF8_0AB8_E7DD_F7FB,
    0xCF75_5760_88D3_8328, 0xDEF9_D52F_4953_3B67, 0xC50D_2B50_C59F_22A7, 0xD392_7D98_9BB1_1140,
    0x3690_9511_8D29_9A8E, 0x25A4_8EB3_6C06_3DE4, 0x79DE_85EE_92FF_097F, 0x70C1_18C1_F94D_C352,
    0x78A3_84B1_57B4_D9A2, 0x306F_760C_1229_FFA7, 0x605A_A111_C0F9_5D34, 0xD320_D86D_2A51_9956,
    0xCC4F_DD1A_7D90_8B66, 0x9CF2_6890_63DB_D80C, 0x8FFC_389C_B473_E63E, 0xF21F_9DE5_8D29_7D1C,
    0xC0DC_2F46_A6CC_E040, 0xB992_ABFE_2B45_F844, 0x7FFE_7B9B_A320_872E, 0x525A_0E7F_DAE6_C123,
    0xF464_AEB2_6734_9C8C, 0x45CD_5928_705B_0979,
  ]

  private func hash(
    _ key: [UInt8], keyspace: UInt16 = 0, with secret: HashKey = Self.secret
  ) -> UInt64 {
    key.withUnsafeBytes { KeyHash.hash($0, keyspace: keyspace, with: secret) }
  }

  @Test func knownAnswers() {
    for (length, answer) in Self.answers.enumerated() {
      #expect(hash(Array(0..<UInt8(length))) == answer, "of \(length) bytes")
    }
    #expect(hash(Array(0...255)) == 0x75B3_E64E_167D_E370)
    #expect(hash(Array("greeting".utf8), keyspace: 0x1234) == 0x860E_821D_3D94_0677)
  }

  @Test func aKeyspaceIsPartOfTheKeyOfTheHash() {
    let key = Array("greeting".utf8)
    let other = HashKey(k0: Self.secret.k0 ^ 7, k1: Self.secret.k1)
    #expect(hash(key, keyspace: 7) == hash(key, with: other))
    #expect(hash(key, keyspace: 7) != hash(key))
  }

  @Test func digestKnownAnswer() {
    var digest = StateDigest()
    digest.add(hash: hash([UInt8(ascii: "a")]), sequence: 2)
    digest.add(hash: hash([UInt8(ascii: "z")]), sequence: 4)
    #expect(digest == StateDigest(low: 0x69F8_FB9B_74B0_6B68, high: 0x040D_A40D_E91C_410C))
  }

  @Test func digestsDoNotDependOnTheOrder() {
    var generator = SeededGenerator(seed: 3)
    var records = (0..<200).map { _ in (hash: generator.next(), sequence: generator.next() >> 8) }
    var digests: Set<StateDigest> = []
    for _ in 0..<5 {
      var digest = StateDigest()
      for record in records { digest.add(hash: record.hash, sequence: record.sequence) }
      digests.insert(digest)
      records.shuffle(using: &generator)
      for record in records { digest.remove(hash: record.hash, sequence: record.sequence) }
      #expect(digest == StateDigest())
      records.shuffle(using: &generator)
    }
    #expect(digests.count == 1)
    #expect(digests.first != StateDigest())
  }

  @Test func digestsMayPassThroughRemovalsFirst() {
    var there = StateDigest()
    there.add(hash: 1, sequence: 1)
    var back = StateDigest()
    back.remove(hash: 2, sequence: 2)
    back.add(hash: 1, sequence: 1)
    back.add(hash: 2, sequence: 2)
    #expect(back == there)
    #expect(there != StateDigest())
  }
}
