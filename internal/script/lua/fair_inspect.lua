-- Return the state of a fair lock without changing it.
-- USES  foreign inspect owned
-- KEYS  1 the lock
--       2 the queue
-- RETURN  two lists: the remaining ms (-1: never expires, -2: not held), then owner, count;
--         the first thousand owners in the queue
local mode, seen = owned(KEYS[1])
if mode ~= '' then return foreign(KEYS[1]) end
local queue = {}
for i = 0, 999 do
  local owner = redis.call('lindex', KEYS[2], i)
  if not owner or not spend(#owner) then break end
  queue[#queue + 1] = owner
end
return {seen, queue}
