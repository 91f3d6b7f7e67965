-- Delete an object. Idempotent.
-- USES  once object tell
-- KEYS  1 the mark of the request series
--       2.. its keys, then the key of a lock that must be free, if any
-- ARGV  1 see lib/object.lua
--       2 number of the request
--       3 how long to keep the mark, in ms
--       4 DEL or UNLINK
--       5 PUBLISH or SPUBLISH
--       6 the message
--       7 the channel of the waiters, or nothing: not a key, since it may be in another slot
--       8 1: there is such a lock
-- RETURN  1 deleted, 0 the object does not exist, -1 the lock is not free
local known = recall(KEYS[1], ARGV[2])
if known then return answered(known) end
if ARGV[8] == '1' and redis.call('exists', KEYS[2 + #types]) == 1 then return answer(-1) end
if not present(2) then return answer(0) end
for i = 2, #types + 1 do redis.call(ARGV[4], KEYS[i]) end
answer(1)
if ARGV[7] ~= '' then tell(ARGV[5], ARGV[7], ARGV[6]) end
return 1
