-- Copy an object. Idempotent.
-- USES  once object
-- KEYS  1 the mark of the request series
--       2.. its keys, then those of the copy
-- ARGV  1 see lib/object.lua
--       2 number of the request
--       3 how long to keep the mark, in ms
--       4 1: also if the target exists
-- RETURN  1 copied, 0 the target exists, -1 the object does not exist
local known = recall(KEYS[1], ARGV[2])
if known then return answered(known) end
if not present(2) then return answer(-1) end
if present(2 + #types) and ARGV[4] == '0' then return answer(0) end
-- COPY comes first: a server that is out of memory refuses it, unless the script has written already.
for i = 2, #types + 1 do
  if redis.call('exists', KEYS[i]) == 1 then redis.call('copy', KEYS[i], KEYS[i + #types], 'replace') end
end
for i = 2, #types + 1 do
  if redis.call('exists', KEYS[i]) == 0 then redis.call('del', KEYS[i + #types]) end
end
return answer(1)
