-- Set a value, and tell those who watch it.
-- USES  tell
-- KEYS  1 the value
-- ARGV  1 the new value
--       2 the channel of those who watch it
--       3 PUBLISH or SPUBLISH
--       4.. options of SET
-- RETURN  1
redis.call('strlen', KEYS[1]) -- fails on a key of another type, which may be a lock
redis.call('set', KEYS[1], ARGV[1], unpack(ARGV, 4))
tell(ARGV[3], ARGV[2], '')
return 1
