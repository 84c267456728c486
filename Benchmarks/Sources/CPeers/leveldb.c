#include "loading.h"

#if __has_include(<leveldb/c.h>)
#include <leveldb/c.h>

#define LEVEL(name) p_leveldb_##name
#define FUNCTIONS(F)                                                                               \
  LEVEL_FUNCTIONS(F, leveldb)                                                                      \
  F(leveldb_options_set_filter_policy) F(leveldb_options_set_cache)                                \
  F(leveldb_options_set_write_buffer_size) F(leveldb_filterpolicy_create_bloom)                    \
  F(leveldb_filterpolicy_destroy) F(leveldb_cache_create_lru) F(leveldb_cache_destroy)             \
  F(leveldb_get) F(leveldb_major_version) F(leveldb_minor_version)

struct peer_store {
  leveldb_t *db;
  leveldb_options_t *options;
  leveldb_writeoptions_t *write;
  leveldb_writebatch_t *batch;
  leveldb_cache_t *cache;
  leveldb_filterpolicy_t *filter;
  bool in_batch;
};

struct peer_reader {
  leveldb_iterator_t *iterator;
  peer_store *store;
  leveldb_readoptions_t *options;
  char *value;
};

#include "levels.h"

static const char *load(void) {
  void *library = peer_open_library("leveldb");
  if (!library) return peer_message_text;
  FUNCTIONS(PEER_FIND)
  return NULL;
}

static const char *version(void) {
  static char text[32];
  snprintf(text, sizeof text, "%d.%d", p_leveldb_major_version(), p_leveldb_minor_version());
  return text;
}

static void release(peer_store *store) {
  p_leveldb_writebatch_destroy(store->batch);
  p_leveldb_writeoptions_destroy(store->write);
  p_leveldb_options_destroy(store->options);
  p_leveldb_cache_destroy(store->cache);
  p_leveldb_filterpolicy_destroy(store->filter);
  free(store);
}

static peer_store *open_store(const char *path, const peer_options *options) {
  peer_store *store = calloc(1, sizeof *store);
  store->options = p_leveldb_options_create();
  store->cache = p_leveldb_cache_create_lru(level_cache_bytes(options));
  store->filter = p_leveldb_filterpolicy_create_bloom(10);
  p_leveldb_options_set_create_if_missing(store->options, 1);
  p_leveldb_options_set_compression(store->options, leveldb_snappy_compression);
  p_leveldb_options_set_cache(store->options, store->cache);
  p_leveldb_options_set_filter_policy(store->options, store->filter);
  p_leveldb_options_set_write_buffer_size(store->options, 64 << 20);
  store->write = p_leveldb_writeoptions_create();
  p_leveldb_writeoptions_set_sync(store->write, options->sync);
  store->batch = p_leveldb_writebatch_create();
  char *error = NULL;
  store->db = p_leveldb_open(store->options, path, &error);
  if (!failed("open", error)) return store;
  release(store);
  return NULL;
}

static int close_store(peer_store *store) {
  p_leveldb_close(store->db);
  release(store);
  return 0;
}

static int get(peer_reader *reader, peer_bytes key, peer_bytes *value) {
  if (reader->value) p_leveldb_free(reader->value);
  char *error = NULL;
  reader->value = p_leveldb_get(reader->store->db, reader->options, key.bytes, key.length,
                                &value->length, &error);
  value->bytes = reader->value;
  if (failed("get", error)) return -1;
  return reader->value ? 0 : 1;
}

static void close_reader(peer_reader *reader) {
  refresh(reader);
  if (reader->value) p_leveldb_free(reader->value);
  p_leveldb_readoptions_destroy(reader->options);
  free(reader);
}

const peer_api peer_leveldb = {
    .name = "leveldb",
    .title = "LevelDB",
    .settings = "block cache of 512 MB or twice the data, bloom filter of 10 bits, 64 MB write "
                "buffer, Snappy",
    .load = load, .version = version, .message = peer_message, .open = open_store,
    .close = close_store, .put = put, .remove = remove_key, .begin = begin, .commit = commit,
    .compact = compact, .reader = open_reader, .refresh = refresh, .get = get, .scan = scan,
    .close_reader = close_reader,
};
#else
PEER_MISSING(peer_leveldb, "leveldb", "LevelDB", "libleveldb-dev")
#endif
