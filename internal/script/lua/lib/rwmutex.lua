-- The readers of a read/write lock.
-- The lock is a hash: mode -> read or write, a reader -> its count, a writer with :write appended -> its count.
-- Each hold of a reader has a key of its own, whose TTL is that of the hold. The count is stored data and is not trusted: a reader
-- counts as alive while the hash exists if its count is not 1 to DEPTH, or if there is too much to check.
local DEPTH = 1000 -- the maximum hold count of a reader
local FEW = 100    -- a call checks all readers if there are at most so many
local steps = 2000 -- a call checks at most so many fields and keys of readers: enough for any single reader

-- depth returns the hold count of a reader by the value of its field, or nil if the value is not 1 to DEPTH.
local function depth(value)
  local count = tonumber(string.match(value, '^[1-9]%d?%d?%d?$') or nil)
  return count and count <= DEPTH and count or nil
end

-- party returns the kind of a field by its name and value: 'mode', 'reader' or 'writer'. It returns nil if neither Redisson nor
-- Holdfast writes such a field.
local function party(field, value)
  if field == 'mode' then return field end
  if #field > 500 or not string.find(value, '^[1-9]%d?%d?%d?%d?$') then return nil end -- do not run patterns on a long text
  return string.find(field, ':%d+$') and 'reader' or string.find(field, ':%d+:write$') and 'writer' or nil
end

-- page returns a list of fields and values, and the cursor of the next page, '0' after the last one.
local function page(lock, cursor)
  local found = redis.call('hscan', lock, cursor, 'count', 10)
  return found[2], found[1]
end

-- sample returns n fields with their values, or all if there are fewer.
local function sample(lock, n)
  local found = redis.pcall('hrandfield', lock, n, 'withvalues')
  return found.err and page(lock, '0') or found -- Redis 6.0 does not support it
end

-- joinable reports whether a hash with the mode read can be a lock, by some of its fields. A lock without an expiry is rare, so its
-- owners must look like those of Redisson and Holdfast.
local function joinable(lock, ttl)
  local found, owners = sample(lock, 3), 0 -- few, since the fields of other data may be long
  for i = 1, #found, 2 do
    local is = party(found[i], found[i + 1])
    if not is or is ~= 'mode' and ttl == -1 and not string.find(found[i], '^%x+%-%x+%-%x+%-%x+%-%x+:') then return false end
    if is ~= 'mode' then owners = owners + 1 end
  end
  return owners > 0 or redis.call('hlen', lock) > 1
end
