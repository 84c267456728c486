#if S3
  /// One answer to the request for a list of objects.
  struct ListPage: Sendable {
    private(set) var keys: [String] = []
    /// The token with which the next page is requested; nil for the last page.
    private(set) var nextToken: String?

    /// Reads an answer; nil when it is not the whole list that was requested.
    init?(_ bytes: [UInt8]) {
      var keys: [String] = []
      var token: String?
      var isTruncated: Bool?
      let isWhole = XMLScanner.forEachText(in: bytes) { name, text in
        switch name {
        case "Key": keys.append(text)
        case "NextContinuationToken": token = text
        case "IsTruncated": isTruncated = text == "true"
        default: break
        }
      }
      guard isWhole, let isTruncated, !isTruncated || token != nil else { return nil }
      self.keys = keys
      nextToken = isTruncated ? token : nil
    }
  }

  /// The reason that an answer gives for a refusal.
  struct RefusalReason: Sendable {
    /// The word for programs, for example `NoSuchKey`; empty when the answer has none.
    private(set) var code = ""
    /// The sentence for people; empty when the answer has none.
    private(set) var message = ""
    /// The region of the bucket, when the request went to another one.
    private(set) var region: String?

    init(_ bytes: [UInt8]) {
      var reason = (code: "", message: "", region: String?.none)
      let isWhole = XMLScanner.forEachText(in: bytes) { name, text in
        switch name {
        case "Code" where reason.code.isEmpty: reason.code = text
        case "Message" where reason.message.isEmpty: reason.message = text
        case "Region": reason.region = text
        default: break
        }
      }
      if isWhole { (code, message, region) = reason }
    }
  }
#endif
