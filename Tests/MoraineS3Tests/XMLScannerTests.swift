#if S3
  import MoraineTesting
  import Testing

  @testable import MoraineS3

  /// The lists and the refusals of servers.
  @Suite struct XMLScannerTests {
    private static let list = """
      <?xml version="1.0" encoding="UTF-8"?>
      <!-- a comment -->
      <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name>
        <Prefix>users/</Prefix><KeyCount>2</KeyCount><IsTruncated>true</IsTruncated>
        <NextContinuationToken>a&amp;b/=&#x41;&#66;&quot;</NextContinuationToken><Delimiter/>
        <Contents><Key>users/log/1</Key><Size>1</Size></Contents>
        <Contents><Key>users/&lt;&gt;&apos;&unknown;&</Key><Owner><ID>x</ID></Owner></Contents>
      </ListBucketResult>
      """

    private func texts(_ text: String) -> [[String]]? {
      var texts: [[String]] = []
      return XMLScanner.forEachText(in: Array(text.utf8)) { texts.append([$0, $1]) } ? texts : nil
    }

    @Test func listHasItsKeysAndItsToken() throws {
      let page = try #require(ListPage(Array(Self.list.utf8)))
      #expect(page.keys == ["users/log/1", "users/<>'&unknown;&"])
      #expect(page.nextToken == "a&b/=AB\"")
      let last = try #require(
        ListPage(Array("<L><IsTruncated>false</IsTruncated><Key>a</Key></L>".utf8)))
      #expect(last.keys == ["a"] && last.nextToken == nil)
    }

    /// A list that was taken for whole would hide objects.
    @Test func cutListIsRefused() {
      let bytes = Array(Self.list.utf8)
      for count in 0..<bytes.count { #expect(ListPage(Array(bytes.prefix(count))) == nil) }
      for other in [
        "", "text", "<html><body>Hello</body></html>", "<a></b>", "</a>", "<a><b></a></b>", "<>",
        "<L><IsTruncated>true</IsTruncated></L>", "<L><Key>a</Key></L>",
      ] { #expect(ListPage(Array(other.utf8)) == nil, "\(other)") }
    }

    @Test func refusalHasItsReason() {
      let text = """
        <?xml version="1.0" encoding="UTF-8"?>
        <Error><Code>PermanentRedirect</Code><Message>use &lt;it&gt;</Message>
        <Region>eu-west-1</Region></Error>
        """
      let reason = RefusalReason(Array(text.utf8))
      #expect(reason.code == "PermanentRedirect" && reason.message == "use <it>")
      #expect(reason.region == "eu-west-1")
      for other in ["", "Bad gateway", "<html>", "<Error><Code>NoSuchKey</Code>"] {
        #expect(RefusalReason(Array(other.utf8)).code.isEmpty, "\(other)")
      }
    }

    @Test func onlyElementsWithTextAloneAreReported() {
      #expect(
        texts("<a>x<b>1</b>y<c d=\"e\">2</c><f/>z</a>") == [["b", "1"], ["c", "2"], ["f", ""]])
      #expect(texts(String(repeating: "<a>", count: 40)) == nil)
      #expect(texts("<a>&#1114112;&#xD800;&#;&toolongtobeone;</a>")?.count == 1)
    }

    /// No input makes the scanner trap, and the texts are never longer than the input.
    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func changedInputsAreReadWithoutATrap(seed: UInt64) {
      var random = SeededGenerator(seed: seed)
      let alphabet = Array("<>/&;#x!?= \"aK\n\u{0}".utf8)
      for round in 0..<2000 {
        var bytes = Array(Self.list.utf8)
        if round % 3 == 0 {
          bytes = [UInt8](repeating: 0, count: Int.random(in: 0..<60, using: &random))
        }
        for _ in 0..<Int.random(in: 1...20, using: &random) where !bytes.isEmpty {
          let index = Int.random(in: bytes.indices, using: &random)
          switch Int.random(in: 0..<4, using: &random) {
          case 0: bytes.remove(at: index)
          case 1: bytes.insert(alphabet.randomElement(using: &random) ?? 0, at: index)
          case 2: bytes[index] = UInt8.random(in: .min ... .max, using: &random)
          default: bytes[index] = alphabet.randomElement(using: &random) ?? 0
          }
        }
        var count = 0
        _ = XMLScanner.forEachText(in: bytes) {
          count += $0.unicodeScalars.count + $1.unicodeScalars.count
        }
        #expect(count <= bytes.count, "seed \(seed), round \(round)")
        _ = ListPage(bytes)
        _ = RefusalReason(bytes)
      }
    }
  }
#endif
