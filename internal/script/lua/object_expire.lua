-- Set the expiry of an object. Idempotent.
-- USES  once object
-- KEYS  1 the mark of the request series
--       2.. its keys
-- ARGV  1 see lib/object.lua
--       2 number of the request
--       3 how long to keep the mark, in ms
--       4 PEXPIRE or PEXPIREAT
--       5 ms from now, or ms of the Unix epoch
--       6 condition: NX no expiry is set, XX one is set, GT the new one is later, LT it is earlier
-- RETURN  1 done, 0 the condition is false, or the object does not exist
local known = recall(KEYS[1], ARGV[2])
if known then return answered(known) end
if not present(2) then return answer(0) end
local left = -2 -- the TTL of the object is that of its first existing key
for i = 2, #types + 1 do
  if left == -2 then left = redis.call('pttl', KEYS[i]) end
end
local new = tonumber(ARGV[5])
if ARGV[4] == 'PEXPIREAT' then
  local clock = redis.call('time')
  new = new - clock[1] * 1000 - math.floor(clock[2] / 1000)
end
-- The script checks the condition itself: Redis before 7 does not support it, and it must hold for all keys together.
for must in string.gmatch(ARGV[6], '%u+') do
  if must == 'NX' and left >= 0 or must == 'XX' and left < 0 then return answer(0) end
  if must == 'GT' and (left < 0 or new <= left) or must == 'LT' and left >= 0 and new >= left then return answer(0) end
end
for i = 2, #types + 1 do redis.call(ARGV[4], KEYS[i], ARGV[5]) end
return answer(1)
