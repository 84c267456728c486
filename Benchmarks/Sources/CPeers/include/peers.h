#ifndef MORAINE_PEERS_H
#define MORAINE_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The engines that Moraine is measured against, behind one face. Each library is loaded when it is
// asked for: where it is not installed, or was not when this was compiled, `load` says so.

// An open store.
typedef struct peer_store peer_store;
// What one thread reads with: a transaction, a connection, or nothing.
typedef struct peer_reader peer_reader;

typedef struct {
  const void *bytes;
  size_t length;
} peer_bytes;

typedef struct {
  // Every commit is on the disk before it returns.
  bool sync;
  // For those whose table or file has a size to be chosen.
  uint64_t expected_count;
  uint64_t expected_bytes;
  // The puts of each batch are in the order of the keys, after every stored key.
  bool appends;
  // Records end after this number of seconds, where the engine has such a thing; 0 for never.
  int32_t lifetime_seconds;
} peer_options;

// Calls return 0, or -1 with words in `message`; what finds nothing returns 1.
typedef struct {
  const char *name;
  const char *title;
  const char *settings;
  // NULL, or why it cannot be used.
  const char *(*load)(void);
  const char *(*version)(void);
  // Of the last call that failed on this thread.
  const char *(*message)(void);

  peer_store *(*open)(const char *path, const peer_options *options);
  int (*close)(peer_store *store);
  int (*put)(peer_store *store, peer_bytes key, peer_bytes value);
  int (*remove)(peer_store *store, peer_bytes key);
  // The puts between the two are one unit; NULL where the engine has none.
  int (*begin)(peer_store *store);
  int (*commit)(peer_store *store);
  // Makes the store as small as its documentation says is possible, while no reader is open; NULL
  // where there is no such call.
  int (*compact)(peer_store *store);

  peer_reader *(*reader)(peer_store *store);
  // Sees what was written since; NULL where a reader always does.
  int (*refresh)(peer_reader *reader);
  // The value is good until the next call with this reader.
  int (*get)(peer_reader *reader, peer_bytes key, peer_bytes *value);
  // The records until `visit` returns false: from a key on, in the order of the keys; with an empty
  // key all, in the order that is cheapest. Without `reads_values` the values may be empty.
  int (*scan)(peer_reader *reader, peer_bytes from, bool reads_values,
              bool (*visit)(void *context, peer_bytes key, peer_bytes value), void *context);
  void (*close_reader)(peer_reader *reader);
} peer_api;

// Models in a table with a unique index and an index, without a library between.
typedef struct peer_models peer_models;

typedef struct {
  int64_t id;
  peer_bytes name, email;
  double score;
  bool is_active;
} peer_model;

typedef struct {
  // NULL, or why it cannot be used.
  const char *(*load)(void);
  const char *(*message)(void);
  peer_models *(*open)(const char *path);
  int (*close)(peer_models *models);
  int (*begin)(peer_models *models);
  int (*commit)(peer_models *models);
  int (*save)(peer_models *models, const peer_model *model);
  // A model is good during the visit.
  int (*find)(peer_models *models, peer_bytes email,
              void (*visit)(void *context, const peer_model *model), void *context);
  int (*range)(peer_models *models, double low, int64_t limit,
               void (*visit)(void *context, const peer_model *model), void *context);
  int (*count)(peer_models *models, double low, double high, int64_t *number);
} peer_models_api;

extern const peer_models_api peer_sqlite_models;

extern const peer_api peer_rocksdb;
extern const peer_api peer_leveldb;
extern const peer_api peer_lmdb;
extern const peer_api peer_sqlite;
extern const peer_api peer_tkrzw;

#endif
