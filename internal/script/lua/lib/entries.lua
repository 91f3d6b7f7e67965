-- What a release needs to know of the entries in the queue.
local SKIPS = 16   -- a call passes over at most so many clients that do not listen

-- spell returns what the owner of an entry wants without ':short' and k, and for how many ms a release grants it.
local function spell(wanted)
  local kind, k = string.match(wanted, '^(.*):short(%d+)$')
  if not k or #k > 2 or k + 0 > 11 then return wanted, GRANT end
  return kind, 2 ^ k
end

-- free_for_all reports whether a release leaves the lock free, although clients are in the queue. With f foreign clients and q clients in
-- the queue, 3f/q of the releases do, so that each client gets about the same share: the first in the queue is mostly faster than Redisson
-- and gets more than half of the locks that are left free. If only readers wait, every other release does. With the lot 0 every release
-- does, because clients that listen at other servers cannot be counted.
local function free_for_all(others, foreign, lot)
  if foreign > 0 then
    local queued = redis.pcall('zcard', queue)
    return fails(queued) or lot * queued < 300 * foreign
  end
  return others > 0 and lot % 2 == 0 or lot == 0
end

-- abandon removes an owner that has given up. It reports whether it was in the queue and there are others, and whether it was the first.
local function abandon(member)
  local head = redis.pcall('zrange', queue, 0, 0)[1]
  local entries = { member }
  for k = 0, 11 do entries[k + 2] = member .. ':short' .. k end
  if redis.pcall('zrem', queue, unpack(entries)) ~= 1 then return false end
  return redis.pcall('exists', queue) == 1, head and string.sub(head .. ':', 1, #member + 1) == member .. ':'
end
