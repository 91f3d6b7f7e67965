-- Release the permits of a request, or prevent that it acquires any if it arrives later.
-- USES  once int64
-- KEYS  1 the number of free permits
--       2 the mark of the request series
--       3 the channel of the waiters
-- ARGV  1 how many
--       2 number of the request
--       3 how long to keep the mark, in ms
--       4 PUBLISH or SPUBLISH
-- RETURN  0 it had acquired nothing, 1 released
local known = recall(KEYS[2], ARGV[2])
if known == 'late' then return 0 end
if known == 'taken' then whole(KEYS[1]) end -- fails if nothing can be released
-- A server that is out of memory refuses SET, unless the script has written already.
redis.call('pexpire', KEYS[2], ARGV[3])
remember(KEYS[2], ARGV[2], 'undone', ARGV[3])
if known ~= 'taken' or redis.call('exists', KEYS[1]) == 0 then return 0 end
redis.pcall(ARGV[4], KEYS[3], redis.call('incrby', KEYS[1], ARGV[1]))
return 1
