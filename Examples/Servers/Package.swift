// swift-tools-version: 6.2

import PackageDescription

// Moraine below packages of others: a persist driver for Hummingbird, a server that uses it, and a
// storage engine for Bodega. A package of its own, because a first build of Hummingbird takes
// minutes. Scripts/servers builds it and runs its tests.
let settings: [SwiftSetting] = [.treatAllWarnings(as: .error)]

let moraine: Target.Dependency = .product(name: "Moraine", package: "Moraine")
let testing: Target.Dependency = .product(name: "MoraineTesting", package: "Moraine")
let hummingbird: Target.Dependency = .product(name: "Hummingbird", package: "hummingbird")

let package = Package(
  name: "MoraineServers",
  platforms: [.macOS(.v15)],
  products: [
    .library(name: "MoraineHummingbird", targets: ["MoraineHummingbird"]),
    .library(name: "MoraineBodega", targets: ["MoraineBodega"]),
    .executable(name: "SessionServer", targets: ["SessionServer"]),
  ],
  dependencies: [
    .package(name: "Moraine", path: "../..", traits: ["ServiceLifecycle"]),
    .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
    // The client of the tests.
    .package(url: "https://github.com/swift-server/async-http-client", from: "1.30.0"),
    .package(url: "https://github.com/apple/swift-system", from: "1.6.0"),
    .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.0"),
  ],
  targets: [
    .target(
      name: "MoraineHummingbird",
      dependencies: [moraine, hummingbird],
      swiftSettings: settings
    ),
    // The routes of the server, without the program, so that tests can serve them.
    .target(name: "Sessions", dependencies: [hummingbird], swiftSettings: settings),
    .executableTarget(
      name: "SessionServer",
      dependencies: ["MoraineHummingbird", "Sessions", moraine, hummingbird],
      swiftSettings: settings
    ),
    .target(name: "MoraineBodega", dependencies: [moraine], swiftSettings: settings),
    .target(name: "ServerTesting", path: "Tests/Support", swiftSettings: settings),
    .testTarget(
      name: "MoraineHummingbirdTests",
      dependencies: [
        "MoraineHummingbird", "ServerTesting", moraine, testing, hummingbird,
        .product(name: "HummingbirdTesting", package: "hummingbird"),
      ],
      swiftSettings: settings
    ),
    // Some of these tests start the built server.
    .testTarget(
      name: "SessionsTests",
      dependencies: [
        "MoraineHummingbird", "ServerTesting", "SessionServer", "Sessions", moraine, testing,
        hummingbird,
        .product(name: "HummingbirdTesting", package: "hummingbird"),
        .product(name: "AsyncHTTPClient", package: "async-http-client"),
        .product(name: "Subprocess", package: "swift-subprocess"),
        .product(name: "SystemPackage", package: "swift-system"),
      ],
      swiftSettings: settings
    ),
    .testTarget(
      name: "MoraineBodegaTests",
      dependencies: ["MoraineBodega", "ServerTesting", moraine, testing],
      swiftSettings: settings
    ),
  ]
)
