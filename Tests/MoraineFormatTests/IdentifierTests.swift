import MoraineFormat
import Testing

@Suite struct IdentifierTests {
  /// In the order of the bytes in a file, so that a dump can be searched for the text.
  @Test func identifierTextIsTheBytesInFileOrder() throws {
    let identifier = StoreIdentifier(low: 0x0123_4567_89AB_CDEF, high: 0xFF)
    #expect(identifier.description == "efcdab8967452301ff00000000000000")
    let header = SegmentHeader(
      storeID: identifier, epoch: 1, number: SegmentNumber(rawValue: 1), salt: 1)
    #expect(Hex.encode(header.encoded()[16..<32]) == identifier.description)
  }
}
