-- Set the first id and the block size of an id generator, unless it has started.
-- Idempotent.
-- USES  once
-- KEYS  1 the next id
--       2 the block size
--       3 the mark of the request series
-- ARGV  1 the first id
--       2 number of the request
--       3 how long to keep the mark, in ms
--       4 the block size
-- RETURN  1 set, 0 it was set before
local known = recall(KEYS[3], ARGV[2])
if known then return known == 'set' and 1 or 0 end
if redis.call('exists', KEYS[1], KEYS[2]) > 0 then
  remember(KEYS[3], ARGV[2], 'before', ARGV[3])
  return 0
end
redis.call('set', KEYS[1], ARGV[1])
redis.call('set', KEYS[2], ARGV[4])
remember(KEYS[3], ARGV[2], 'set', ARGV[3])
return 1
