#ifndef MORAINE_LEVELS_H
#define MORAINE_LEVELS_H

// The calls that LevelDB and RocksDB, which began as a copy of it, have in common. The names of
// both C interfaces differ in their prefix alone.
//
// The file that includes this one first defines LEVEL(name), the loaded function of that name;
// FUNCTIONS, with LEVEL_FUNCTIONS among them; and the structures peer_store (db, write, batch,
// in_batch) and peer_reader (store, options, iterator).

// The names of the functions of both.
#define LEVEL_FUNCTIONS(F, prefix)                                                                 \
  F(prefix##_options_create) F(prefix##_options_destroy)                                           \
  F(prefix##_options_set_create_if_missing) F(prefix##_options_set_compression)                    \
  F(prefix##_open) F(prefix##_close) F(prefix##_put) F(prefix##_delete) F(prefix##_write)          \
  F(prefix##_writeoptions_create) F(prefix##_writeoptions_set_sync)                                \
  F(prefix##_writeoptions_destroy) F(prefix##_readoptions_create)                                  \
  F(prefix##_readoptions_destroy) F(prefix##_create_iterator) F(prefix##_iter_seek_to_first)       \
  F(prefix##_iter_seek) F(prefix##_iter_valid) F(prefix##_iter_next) F(prefix##_iter_key)          \
  F(prefix##_iter_value) F(prefix##_iter_get_error) F(prefix##_iter_destroy)                       \
  F(prefix##_writebatch_create) F(prefix##_writebatch_put) F(prefix##_writebatch_delete)           \
  F(prefix##_writebatch_clear) F(prefix##_writebatch_destroy) F(prefix##_compact_range)            \
  F(prefix##_free)

FUNCTIONS(PEER_FUNCTION)

// Bytes of the block cache: 512 MB, and more where twice the data is more, so that large stores are
// not measured with a cache that is smaller than the data. LMDB and Moraine use the kernel's cache.
static inline size_t level_cache_bytes(const peer_options *options) {
  size_t least = (size_t)512 << 20, twice = options->expected_bytes * 2;
  return twice > least ? twice : least;
}

static int failed(const char *what, char *error) {
  if (!error) return 0;
  peer_fail(what, error);
  LEVEL(free)(error);
  return -1;
}

static int put(peer_store *store, peer_bytes key, peer_bytes value) {
  if (store->in_batch) {
    LEVEL(writebatch_put)(store->batch, key.bytes, key.length, value.bytes, value.length);
    return 0;
  }
  char *error = NULL;
  LEVEL(put)(store->db, store->write, key.bytes, key.length, value.bytes, value.length, &error);
  return failed("put", error);
}

static int remove_key(peer_store *store, peer_bytes key) {
  if (store->in_batch) {
    LEVEL(writebatch_delete)(store->batch, key.bytes, key.length);
    return 0;
  }
  char *error = NULL;
  LEVEL(delete)(store->db, store->write, key.bytes, key.length, &error);
  return failed("delete", error);
}

static int begin(peer_store *store) {
  LEVEL(writebatch_clear)(store->batch);
  store->in_batch = true;
  return 0;
}

static int commit(peer_store *store) {
  char *error = NULL;
  store->in_batch = false;
  LEVEL(write)(store->db, store->write, store->batch, &error);
  return failed("write", error);
}

static int compact(peer_store *store) {
  LEVEL(compact_range)(store->db, NULL, 0, NULL, 0);
  return 0;
}

static peer_reader *open_reader(peer_store *store) {
  peer_reader *reader = calloc(1, sizeof *reader);
  reader->store = store;
  reader->options = LEVEL(readoptions_create)();
  return reader;
}

static int scan(peer_reader *reader, peer_bytes from, bool reads_values,
                bool (*visit)(void *, peer_bytes, peer_bytes), void *context) {
  // One iterator serves all scans of a reader, until the reader is refreshed.
  if (!reader->iterator)
    reader->iterator = LEVEL(create_iterator)(reader->store->db, reader->options);
  if (from.length) {
    LEVEL(iter_seek)(reader->iterator, from.bytes, from.length);
  } else {
    LEVEL(iter_seek_to_first)(reader->iterator);
  }
  while (LEVEL(iter_valid)(reader->iterator)) {
    peer_bytes key, value = {0};
    key.bytes = LEVEL(iter_key)(reader->iterator, &key.length);
    if (reads_values) value.bytes = LEVEL(iter_value)(reader->iterator, &value.length);
    if (!visit(context, key, value)) break;
    LEVEL(iter_next)(reader->iterator);
  }
  char *error = NULL;
  LEVEL(iter_get_error)(reader->iterator, &error);
  return failed("scan", error);
}

static int refresh(peer_reader *reader) {
  if (reader->iterator) LEVEL(iter_destroy)(reader->iterator);
  reader->iterator = NULL;
  return 0;
}

#endif
