#if S3
  import MoraineArchive

  /// The meaning of an answer that refuses a request.
  struct BucketRefusal {
    let location: S3Location
    let request: BucketRequest
    let answer: BucketAnswer

    /// The error for the caller, with what to do.
    var error: ObjectStoreError {
      switch answer.status {
      case 301, 302, 307, 308: return otherPlace
      case 403, 401: return denied
      case 404:
        if answer.code == "NoSuchBucket" {
          return error(
            .denied, "the bucket does not exist; create it, or correct its name or the endpoint")
        }
        return error(
          .unavailable,
          "the server says 404, and not that the object is missing (NoSuchKey); look for a proxy, "
            + "or for a wrong endpoint")
      case 408:
        return error(.unavailable, "the request did not arrive whole", mayHaveHadEffect: true)
      case 409: return error(.unavailable, "another request for the same object is being worked on")
      case 429: return error(.unavailable, "the server asks for fewer requests")
      case 501:
        return error(
          .unsupported, "the server does not implement this request; an archive needs it")
      case 507: return error(.noSpace, "the bucket is full")
      case 500...:
        let isThrottle = answer.code == "SlowDown" || answer.code == "ServiceUnavailable"
        return error(
          .unavailable, "the server has a failure or too many requests",
          mayHaveHadEffect: !isThrottle)
      default: return other
      }
    }

    private var other: ObjectStoreError {
      switch answer.code {
      case "AuthorizationHeaderMalformed", "IllegalLocationConstraintException",
        "PermanentRedirect":
        return otherPlace
      case "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId":
        return denied
      case "RequestTimeout", "IncompleteBody":
        return error(.unavailable, "the request did not arrive whole")
      case "NotImplemented":
        return error(
          .unsupported, "the server does not implement this request; an archive needs it")
      case "QuotaExceeded", "EntityTooLarge":
        return error(.noSpace, "the bucket does not take an object of this length")
      default:
        if answer.status == 412 {
          return error(.unsupported, "the server answers a condition that was not set")
        }
        return error(.denied, "the server refuses the request")
      }
    }

    /// The bucket is in another region, or the endpoint is another server's.
    private var otherPlace: ObjectStoreError {
      let region = answer.headers["x-amz-bucket-region"] ?? answer.reason?.region
      let advice =
        region.map { "the bucket is in the region \($0); use region=\($0)" }
        ?? "the bucket is elsewhere; correct the region and the endpoint"
      return error(.denied, advice)
    }

    private var denied: ObjectStoreError {
      switch answer.code {
      case "SignatureDoesNotMatch":
        error(
          .denied,
          "the signature does not match: the secret key or the region is wrong, or a proxy changes "
            + "requests")
      case "InvalidAccessKeyId": error(.denied, "the server does not know the access key")
      case "ExpiredToken", "InvalidToken", "TokenRefreshRequired":
        error(.denied, "the temporary keys have expired; the source of the keys has no newer ones")
      case "RequestTimeTooSkewed", "RequestExpired":
        error(.denied, "the clock of this machine differs from the server's; set it")
      case "QuotaExceeded": error(.noSpace, "the bucket has reached its quota")
      default: error(.denied, "the keys do not permit this. " + permission)
      }
    }

    /// The permission that the request needs.
    private var permission: String {
      switch request.verb {
      case .get where request.object == nil: "Allow s3:ListBucket on the bucket"
      case .get:
        "Without s3:ListBucket a server also answers so when the object is missing, and an "
          + "archive must know that: allow s3:ListBucket on the bucket, and s3:GetObject on its "
          + "objects"
      case .put: "Allow s3:PutObject on the objects of the bucket"
      case .delete: "Allow s3:DeleteObject on the objects of the bucket"
      }
    }

    private func error(
      _ code: ObjectStoreError.Code, _ advice: String, mayHaveHadEffect: Bool = false
    ) -> ObjectStoreError {
      var words = ["\(answer.status)"]
      if !answer.code.isEmpty { words.append(answer.code) }
      var said = words.joined(separator: " ")
      if let message = answer.reason?.message, !message.isEmpty {
        said += ": \(message.prefix(200))"
      }
      return ObjectStoreError(
        code, "\(location.endpoint), bucket '\(location.bucket)': \(advice) (\(said))",
        object: request.object, mayHaveHadEffect: mayHaveHadEffect && request.changes)
    }
  }
#endif
