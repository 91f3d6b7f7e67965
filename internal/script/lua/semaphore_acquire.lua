-- Acquire permits if there are enough. Idempotent.
-- USES  acquire once int64
-- KEYS  1 the number of free permits
--       2 the mark of the request series
-- ARGV  1 how many
--       2 number of the request
--       3 how long to keep the mark, in ms
-- RETURN  1 acquired, 0 not enough, -1 the semaphore does not exist
local known = recall(KEYS[2], ARGV[2])
if known then return known == 'taken' and 1 or 0 end
local free = number(KEYS[1])
if not free then return -1 end
if less(free, ARGV[1]) then return 0 end
-- The user may lack permission for some commands. Neither permits without a mark nor a mark without permits may result.
remember(KEYS[2], ARGV[2], 'failed', ARGV[3])
redis.call('decrby', KEYS[1], ARGV[1])
remember(KEYS[2], ARGV[2], 'taken', ARGV[3])
return 1
